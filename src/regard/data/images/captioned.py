"""Images with captions, whatever their source: what a captioner learns from."""

from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

Part = Literal["training", "validation", "test", "unseen"]
"""Which images of a source; "unseen": synthetic ones with pairs that no image of the training has."""

PARTS: tuple[Part, ...] = ("training", "validation", "test", "unseen")

Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels, the last two just outside."""


class NamedObject(NamedTuple):
    """An object's name in the first caption, and where the object stands.

    Attributes:
        start, end: characters of `captions[0]`: the name without its colour or article.
        box: of the object's ink, in pixels of the square.
    """

    start: int
    end: int
    box: Box


class CaptionedImage(NamedTuple):
    """A square image and its captions.

    Attributes:
        pixels: `(size, size, 3)`, uint8: red, green, blue.
        captions: one or more, all of them right.
        named: the objects of the first caption in its order; empty where no boxes are known.
        place: which image this is, for errors: a number or a file.
    """

    pixels: np.ndarray
    captions: tuple[str, ...]
    named: tuple[NamedObject, ...]
    place: str


@runtime_checkable
class ImageSource(Protocol):
    """A source: image n is the same one whenever it is asked for, drawn or read on demand.

    `len` is what an epoch, or a test, holds. A source of synthetic images has one for every number from 0 on, so
    that an epoch may continue the numbers; one that reads files raises an IndexError beyond its last.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> CaptionedImage: ...
