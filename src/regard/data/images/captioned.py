"""Pictures with captions, whatever their source: what a model of pictures learns from."""

from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

Part = Literal["training", "validation", "test", "unseen"]
"""Which pictures of a source; "unseen": made ones with pairs that no picture of the training has."""

PARTS: tuple[Part, ...] = ("training", "validation", "test", "unseen")

Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels, the last two just outside."""


class Named(NamedTuple):
    """An object's name in the first caption, and where the object stands.

    Attributes:
        start, end: characters of `captions[0]`: the name without its colour or article.
        box: of the object's ink, in pixels of the square.
    """

    start: int
    end: int
    box: Box


class Captioned(NamedTuple):
    """A square picture and what is said of it.

    Attributes:
        pixels: `(size, size, 3)`, uint8: red, green, blue.
        captions: one or more, all of them right.
        named: the objects of the first caption in its order; empty where no boxes are known.
        place: which picture this is, for errors: a number or a file.
    """

    pixels: np.ndarray
    captions: tuple[str, ...]
    named: tuple[Named, ...]
    place: str


@runtime_checkable
class Pictures(Protocol):
    """A source: picture n is the same one whenever it is asked for, made or read on demand.

    `len` is what an epoch, or a test, holds. A source that makes its pictures has one for every number from 0 on, so
    that an epoch may go on counting; one that reads files raises an IndexError beyond its last.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Captioned: ...
