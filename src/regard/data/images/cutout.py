"""Objects to be pasted into scenes: a drawing made small and cut to its ink."""

from typing import NamedTuple

import numpy as np
from PIL import Image

INK = 24
"""Of 255: fainter rims are left out, so that a box ends where something is seen."""


class Cutout(NamedTuple):
    """An object cut to its ink: something stands in each of its outer rows and columns.

    Attributes:
        color: red, green, blue from 0 to 255: `(3,)`, or `(height, width, 3)`.
        alpha: `(height, width, 1)`, from 0 to 1.
    """

    color: np.ndarray
    alpha: np.ndarray


def cut_out(drawing: Image.Image, side: int) -> Cutout:
    """A drawing's ink with a longer side of that many pixels.

    Args:
        drawing: with transparency (RGBA).
        side: in pixels; faint rims may make the stamp a pixel smaller.
    """
    inner = drawing.crop(_inked(np.asarray(drawing.getchannel("A"))))
    scale = side / max(inner.size)
    width, height = (max(1, round(length * scale)) for length in inner.size)
    # Premultiplied ("RGBa"): what is transparent has no colour that could mix in.
    small = inner.convert("RGBa").resize((width, height), Image.Resampling.BOX).convert("RGBA")
    cut = np.asarray(small.crop(_inked(np.asarray(small.getchannel("A")))), np.float32)
    color, alpha = cut[..., :3], cut[..., 3:] / 255
    cutout = Cutout(color, np.where(alpha * 255 < INK, 0, alpha).astype(np.float32))
    for part in cutout:
        part.setflags(write=False)  # stamps are kept and pasted many times
    return cutout


def _inked(alpha: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what is seen."""
    rows, columns = np.flatnonzero((alpha >= INK).any(1)), np.flatnonzero((alpha >= INK).any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def is_blank(drawing: Image.Image) -> bool:
    """Whether nothing of a drawing is seen."""
    return bool(np.asarray(drawing.getchannel("A")).max() < INK)
