"""The part of the data that a text belongs to, by a hash of its words, so that copies are never in two parts."""

from collections.abc import Collection
from hashlib import sha256

from regard.data.settings import Part
from regard.data.text.units import normalize


def part_of(text: str, validation: float, test: float) -> Part:
    """The part of the data that a text belongs to, by a hash of its words.

    The same on every machine, whatever else is in the file and in which order. Texts that differ in case or in white
    space alone are the same one here.

    Args:
        text: the sentence.
        validation, test: the shares of these parts; the rest is for training.
    """
    words = _words(text)
    place = int.from_bytes(sha256(words.encode("utf-8")).digest()[:8], "big") / 2**64
    if place < test:
        return "test"
    return "validation" if place < test + validation else "training"


def none_for(part: Part, texts: Collection[str]) -> str:
    """In words: none of some texts is in a part, why that may be, and what helps."""
    different = len(set(map(_words, texts)))
    copies = f" ({different} of them different; copies of one are all in one part)" if different < len(texts) else ""
    if part == "training":
        share = "smaller shares to the other parts: data.validation_share, data.test_share"
    else:
        share = f"it a larger share: data.{part}_share"
    return (
        f"{len(texts)} sentences{copies} are too few: none of them is for {part}. Give more different ones, or {share}"
    )


def _words(text: str) -> str:
    """The words of a text, by which copies are recognized."""
    return " ".join(normalize(text).casefold().split())
