"""Labels as people see them: nothing invisible, nothing dropped, nothing that moves its neighbours.

A token may be a space, a line break, a control character or half an emoji. `visible` gives each of them a shape;
`shorten` cuts between grapheme clusters (what a reader takes for one character) by the columns a terminal gives them.
"""

import unicodedata
from collections.abc import Iterator

from wcwidth import iter_graphemes, width as cells

EMPTY = "∅"
_SHAPES = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u3000": "U+3000"}
_JOINERS = "\u200c\u200d"
_LEFT_TO_RIGHT_MARK = "\u200e"


def visible(label: str) -> str:
    """The label with every blank or invisible character shown: ␣ ⏎ ⇥, `U+200B`, and ∅ for the empty label.

    What belongs to a written character stays as it is: combining marks, the joiners inside an emoji or a Persian word,
    variation selectors. Text without blanks and control characters comes back unchanged.
    """
    return "".join(_visible_cluster(cluster) for cluster in iter_graphemes(label)) or EMPTY


def readable(text: str) -> str:
    """A title or note on one line: spaces stay, any other blank or invisible character is shown as in `visible`."""
    return " ".join("" if part == "" else visible(part) for part in text.split(" "))


def shorten(label: str, width: int) -> str:
    """Cut the label to `width` terminal columns, between grapheme clusters, with … in place of what is left out."""
    if width_of(label) <= width:
        return label
    kept, used = "", 0
    for cluster in iter_graphemes(label):
        used += width_of(cluster)
        if used > width - 1:
            break
        kept += cluster
    return kept + "…"


def width_of(text: str) -> int:
    """Columns that the text takes in a terminal: 2 for Chinese and emoji, 0 for combining marks."""
    return cells(text, control_codes="ignore")


def is_right_to_left(text: str) -> bool:
    """Whether any character of the text is of a right-to-left script."""
    return any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)


def anchored(label: str) -> str:
    """The label between left-to-right marks if it is right-to-left, so that it cannot reorder what stands beside it."""
    return f"{_LEFT_TO_RIGHT_MARK}{label}{_LEFT_TO_RIGHT_MARK}" if is_right_to_left(label) else label


def is_ignorable(character: str) -> bool:
    """Whether a character only steers its neighbours (joiners, variation selectors, tags) and has no shape itself."""
    code = ord(character)
    return character in _JOINERS or 0xFE00 <= code <= 0xFE0F or 0xE0020 <= code <= 0xE01EF


def escaped(text: str) -> str:
    """Each character as its code point, such as U+1F600."""
    return "".join(f"U+{ord(character):04X}" for character in text)


def _visible_cluster(cluster: str) -> str:
    if unicodedata.combining(cluster[0]):
        cluster = "◌" + cluster  # a mark alone needs something to stand on
    return "".join(_shapes_of(cluster))


def _shapes_of(cluster: str) -> Iterator[str]:
    for place, character in enumerate(cluster):
        if character in _SHAPES:
            yield _SHAPES[character]
        elif place > 0 and is_ignorable(character):
            yield character
        elif unicodedata.category(character)[0] in "CZ" or is_ignorable(character):
            yield escaped(character)
        else:
            yield character
