"""From numbers to shades: one scale for all matrices of a view, so that equal shades are equal numbers."""

import math
from dataclasses import dataclass

import numpy as np

from regard.views.view import Plane, View

Ramp = tuple[str, ...]

LIGHT: Ramp = ("#f3f5f9", "#c3d5ee", "#7ba6dc", "#3a6fbe", "#17387a")
DARK: Ramp = ("#1d212b", "#244274", "#3b78bf", "#86bbe8", "#eef7ff")
# A terminal's background may be black or white: from a grey that is far from both to warm and bright.
EITHER: Ramp = ("#868a96", "#a184ac", "#d57b93", "#ff8352", "#ffb627")
# Below zero, where a view has numbers below zero.
LIGHT_BELOW: Ramp = ("#f3f5f9", "#f2cdbf", "#e39479", "#c4552f", "#7f2a0d")
DARK_BELOW: Ramp = ("#1d212b", "#5c3020", "#b0562f", "#e99b6f", "#fff1e6")
EITHER_BELOW: Ramp = ("#868a96", "#749ba6", "#55abc0", "#2fbcdc", "#00d0ff")


@dataclass(frozen=True)
class Scale:
    """Levels from 0 to `high`, and as far below zero if any number is negative.

    Args:
        high: the number of the strongest shade, above 0.
        signed: whether numbers below zero occur.
    """

    high: float
    signed: bool

    @classmethod
    def of(cls, view: View) -> "Scale":
        """The scale on which the largest finite number of the view, whatever its sign, has the strongest shade."""
        every = [matrix for matrix in (*view.overview, *view.matrices) if not isinstance(matrix, Plane)]
        finite = [matrix.values[np.isfinite(matrix.values)] for matrix in every]
        numbers = np.concatenate(finite) if finite else np.empty(0)
        strongest = float(np.abs(numbers).max()) if numbers.size else 0.0
        return cls(high=strongest or 1.0, signed=bool((numbers < 0).any()))

    def levels(self, values: np.ndarray) -> np.ndarray:
        """Strength of each shade from 0 to 1, negative below zero; infinity is the strongest, NaN has 0."""
        with np.errstate(over="ignore"):
            return np.nan_to_num(np.clip(values / self.high, -1.0, 1.0), nan=0.0)


def shade(ramp: Ramp, level: float) -> str:
    """The colour at a level from 0 to 1, as #rrggbb."""
    place = max(0.0, min(1.0, level)) * (len(ramp) - 1)
    below = min(int(place), len(ramp) - 2)
    mix = place - below
    low, high = _channels(ramp[below]), _channels(ramp[below + 1])
    return "#" + "".join(f"{round(a + (b - a) * mix):02x}" for a, b in zip(low, high, strict=True))


def ink(background: str) -> str:
    """Black or white, whichever is easier to read on that colour (relative luminance of WCAG 2)."""
    red, green, blue = (_linear(channel / 255) for channel in _channels(background))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "#ffffff"


def exact(value: float) -> str:
    """A number for reading: four significant digits; nan, ∞ and −∞ by name."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "nan" if math.isnan(value) else f"{value:.4g}".replace("-", "−")


def brief(value: float) -> str:
    """A number for a small cell: `.42`, `1.0`, `0` when exactly zero, else two significant digits."""
    if not math.isfinite(value):
        return exact(value)
    if value == 0:
        return "0"
    if abs(value) < 0.995:
        short = f"{value:.2f}".replace("0.", ".", 1)
    else:
        short = f"{value:.1f}" if abs(value) < 9.95 else f"{value:.2g}".replace("e+0", "e")
    return short.replace("-", "−")


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
