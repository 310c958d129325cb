"""Where the objects of a scene stand, so that no two touch and each relation in a caption is clear."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from regard.data.chance import Chance
from regard.data.images.caption_text import Relation
from regard.data.images.captioned import Box

LARGEST_SHARE = 0.12
"""Of the canvas, that an object's box may take."""

_GAP = 2
_STEP = 0.05  # of the canvas, from one object's middle to the next one's where they are named from left to right
_SLANT = 0.5  # how far aside, of the distance, an object may stand that is said to be above another one


def relation(one: Box, other: Box) -> Relation | None:
    """Where one box is relative to another: clearly above, below, left or right of it, or None.

    Clearly: a line between them has room, and their centres are at most half as far apart the other way.
    """
    across = (one[0] + one[2] - other[0] - other[2]) / 2
    down = (one[1] + one[3] - other[1] - other[3]) / 2
    if abs(across) <= _SLANT * abs(down):
        if one[3] + _GAP <= other[1]:
            return "above"
        if other[3] + _GAP <= one[1]:
            return "below"
    if abs(down) <= _SLANT * abs(across):
        if one[2] + _GAP <= other[0]:
            return "left"
        if other[2] + _GAP <= one[0]:
            return "right"
    return None


class Placement(NamedTuple):
    """Boxes that stand well.

    Attributes:
        order: their numbers in the order in which they are named.
        corners: left and top of each, in that order.
        relations: how the first named stands to each of the others.
    """

    order: list[int]
    corners: list[tuple[int, int]]
    relations: list[Relation]


def place_objects(sides: Sequence[tuple[int, int]], size: int, chance: Chance, *, from_left: bool) -> Placement | None:
    """One try to place boxes on a square canvas.

    Args:
        sides: width and height of each.
        size: of the canvas.
        chance: draws the places.
        from_left: whether they are named from left to right; otherwise in the order in which they are given.

    Returns:
        The placement; None if a relation or the order is not clear or two boxes touch: then other sides may fit better.
    """
    corners = [(chance.below(size - wide + 1), chance.below(size - tall + 1)) for wide, tall in sides]
    order = list(range(len(sides)))
    if from_left:
        middles = [left + wide / 2 for (left, _), (wide, _) in zip(corners, sides, strict=True)]
        order.sort(key=middles.__getitem__)
        if any(middles[after] - middles[before] < _STEP * size for before, after in pairwise(order)):
            return None
    boxes = [_box(corners[number], sides[number]) for number in order]
    relations: list[Relation] = []
    for other in boxes[1:]:
        found = relation(boxes[0], other)
        if found is None:
            return None
        relations.append(found)
    if len(boxes) == 3 and _touch(boxes[1], boxes[2]):
        return None
    return Placement(order, [corners[number] for number in order], relations)


def _box(corner: tuple[int, int], sides: tuple[int, int]) -> Box:
    (left, top), (wide, tall) = corner, sides
    return float(left), float(top), float(left + wide), float(top + tall)


def _touch(one: Box, other: Box) -> bool:
    return (
        one[0] < other[2] + _GAP and other[0] < one[2] + _GAP and one[1] < other[3] + _GAP and other[1] < one[3] + _GAP
    )
