"""Gold links between two wordings of one meaning, from the part of the meaning that each word expresses."""

import functools
from itertools import product

from regard.data.pairs.parallel_text import Links

# Field and part of each word of a chunk; a word that only the grammar asks for has no field.
Tags = tuple[tuple[str | None, str], ...]
PlacedParts = list[tuple[int, str]]
JOINT = "joint"

# The half of the day is said by the hour itself in a language that counts to 24.
_SAID_BY = {"half": "hour"}


@functools.cache
def chunk_links(ours: Tags, theirs: Tags) -> tuple[Links, Links]:
    """Sure and possible links (word of ours, word of theirs) of one chunk in two languages.

    A field expressed on both sides is linked part by part where both are cut into the same parts, else as a whole. One
    word and all that express the same are surely linked. Of two groups of words nobody knows which is which, so their
    links are possible ones. The joint of a number word ("-", "et") may link to all of that number, a word of the
    grammar to all of its chunk.
    """
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    one, other = _fields(ours), _fields(theirs)
    every_one, every_other = (list(enumerate(part for _, part in side)) for side in (ours, theirs))
    for field in one.keys() | other.keys():
        if field is None:
            possible |= _product(one.get(None, []), every_other) | _product(every_one, other.get(None, []))
        elif field in one and field in other:
            _link_field(one[field], other[field], sure, possible)
        elif field in one:
            possible |= _product(one[field], other.get(_SAID_BY.get(field, ""), every_other))
        else:
            possible |= _product(one.get(_SAID_BY.get(field, ""), every_one), other[field])
    return frozenset(sure), frozenset(sure | possible)


def _fields(tags: Tags) -> dict[str | None, PlacedParts]:
    fields: dict[str | None, PlacedParts] = {}
    for place, (field, part) in enumerate(tags):
        fields.setdefault(field, []).append((place, part))
    return fields


def _link_field(
    ours: PlacedParts, theirs: PlacedParts, sure: set[tuple[int, int]], possible: set[tuple[int, int]]
) -> None:
    joints, other_joints = _part(ours, JOINT), _part(theirs, JOINT)
    sure |= _product(joints, other_joints)
    possible |= _product(joints, theirs) | _product(ours, other_joints)
    said, other_said = ([word for word in side if word[1] != JOINT] for side in (ours, theirs))
    parts = {part for _, part in said}
    if parts == {part for _, part in other_said}:
        cells = [(_part(said, part), _part(other_said, part)) for part in parts]
    else:
        cells = [(said, other_said)]
    for cell, other_cell in cells:
        into = sure if len(cell) == 1 or len(other_cell) == 1 else possible
        into |= _product(cell, other_cell)


def _part(words: PlacedParts, part: str) -> PlacedParts:
    return [word for word in words if word[1] == part]


def _product(ours: PlacedParts, theirs: PlacedParts) -> set[tuple[int, int]]:
    return {(one, other) for (one, _), (other, _) in product(ours, theirs)}
