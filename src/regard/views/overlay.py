"""Attention as light on an image: weights uncover it, all else lies under a dark veil. The same for all renderers."""

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from regard.views.view import Overlay

VEIL = (12, 16, 34)
THICKEST = 0.66
"""How much of a pixel the veil covers at weight 0; at the largest weight it is gone."""

_LEGEND = (226, 229, 235)  # what the legend's veil lies on


def thickness(levels: np.ndarray) -> np.ndarray:
    """How much the veil covers at levels from 0 to 1; below 0, which no weight is, as at 0."""
    return THICKEST * (1 - np.clip(levels, 0.0, 1.0))


def lit(overlay: Overlay, levels: np.ndarray, width: int, height: int) -> np.ndarray:
    """The image with its light, `(height, width, 3)` of uint8; between the middles of cells light fades evenly."""
    image = np.asarray(_scaled(overlay.image, width, height), np.float64)
    grid = Image.fromarray(np.clip(levels, 0.0, 1.0).astype(np.float32))
    veil = thickness(np.asarray(grid.resize((width, height), Image.Resampling.BILINEAR)))[..., None]
    return np.rint(image * (1 - veil) + np.array(VEIL) * veil).astype(np.uint8)


def legend(steps: int) -> np.ndarray:
    """Colours from nothing to the most, `(steps, 3)` from 0 to 1."""
    veil = thickness(np.linspace(0, 1, steps))[:, None]
    return (np.array(_LEGEND) * (1 - veil) + np.array(VEIL) * veil) / 255


def drawn_size(image: np.ndarray, longest: int) -> tuple[int, int]:
    """Width and height of an image whose longer side has that many pixels."""
    height, width = image.shape[:2]
    scale = longest / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def shared(overlays: Sequence[Overlay]) -> list[np.ndarray]:
    """The different images of some overlays, each once."""
    found: dict[tuple[tuple[int, ...], bytes], np.ndarray] = {}
    for overlay in overlays:
        found.setdefault(key(overlay.image), overlay.image)
    return list(found.values())


def key(image: np.ndarray) -> tuple[tuple[int, ...], bytes]:
    """The identity of an image: its size and all of its pixels."""
    return image.shape, image.tobytes()


def png(image: np.ndarray, longest: int | None = None) -> bytes:
    """An image as a PNG file; a longer one is scaled down to `longest` pixels."""
    drawn = Image.fromarray(image)
    if longest is not None and max(drawn.size) > longest:
        drawn = _scaled(image, *drawn_size(image, longest))
    content = io.BytesIO()
    drawn.save(content, "PNG", optimize=True)
    return content.getvalue()


def _scaled(image: np.ndarray, width: int, height: int) -> Image.Image:
    """Larger ones keep their pixels as squares, which small images are made of; smaller ones are means."""
    larger = width >= image.shape[1]
    return Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST if larger else Image.Resampling.BOX)
