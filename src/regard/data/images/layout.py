"""Where the objects of a scene stand, so that no two touch and what is said of them is plain to see."""

from collections.abc import Sequence

from regard.data.chance import Chance
from regard.data.images.captioned import Box
from regard.data.images.wording import Relation

LARGEST_SHARE = 0.12
"""Of the canvas, that an object's box may take."""

_GAP = 2
_SLANT = 0.5  # how far aside, of the distance, an object may stand that is said to be above another one


def relation(one: Box, other: Box) -> Relation | None:
    """Where one box stands seen from another: clearly above, below, left or right of it, or None.

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


def place(
    sides: Sequence[tuple[int, int]], size: int, chance: Chance
) -> tuple[list[tuple[int, int]], list[Relation]] | None:
    """One try to place boxes on a square canvas.

    Args:
        sides: width and height of each, the first named first.
        size: of the canvas.
        chance: draws the places.

    Returns:
        The left upper corners, and how the first box stands to each of the others; None if a relation is not clear or
        two boxes touch: then other sides may fit better.
    """
    corners = [(chance.below(size - wide + 1), chance.below(size - tall + 1)) for wide, tall in sides]
    boxes = [
        (float(left), float(top), float(left + wide), float(top + tall))
        for (left, top), (wide, tall) in zip(corners, sides, strict=True)
    ]
    relations: list[Relation] = []
    for other in boxes[1:]:
        found = relation(boxes[0], other)
        if found is None:
            return None
        relations.append(found)
    if len(boxes) == 3 and _touch(boxes[1], boxes[2]):
        return None
    return corners, relations


def _touch(one: Box, other: Box) -> bool:
    return (
        one[0] < other[2] + _GAP and other[0] < one[2] + _GAP and one[1] < other[3] + _GAP and other[1] < one[3] + _GAP
    )
