"""Where the parts of a line chart stand, in numbers from 0 to 1: the same for the picture and for the page.

A row of a matrix is a line, a column a place along it. A number that is not finite is a gap.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.views.view import Matrix

COLORS = ("#0072b2", "#d55e00", "#009e73", "#b6529a", "#8a6d00", "#3a9bd9", "#5b606b", "#a63d40")
COLORS_ON_DARK = ("#56b4e9", "#ff9f5a", "#3ecf9f", "#e39ccb", "#e0c341", "#9ad1f5", "#b9bcc4", "#f08a8d")
"""Line by line, distinguishable to most colour-blind readers; markers and dashes say the same without colour."""

_MOST_TICKS = 7


@dataclass(frozen=True)
class Curves:
    """A matrix as lines.

    Attributes:
        across: where each column stands, 0 at the left, 1 at the right.
        ticks: numbers of the upright axis with their height, 0 at the bottom, 1 at the top.
        heights: `(rows, columns)`, of each number; NaN for a gap.
    """

    across: tuple[float, ...]
    ticks: tuple[tuple[float, float], ...]
    heights: np.ndarray

    @classmethod
    def of(cls, matrix: Matrix) -> "Curves":
        """Lay a matrix out; its upright axis begins at 0 unless all numbers are far above it."""
        values = np.where(np.isfinite(matrix.values), matrix.values, np.nan)
        there = values[~np.isnan(values)]
        low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 1.0)
        if 0 <= low <= high / 2:
            low = 0.0
        steps = ticks(low, high)
        bottom, top = min(low, steps[0]), max(high, steps[-1])
        span = (top - bottom) or 1.0
        return cls(
            across=_between(_places(matrix.columns)),
            ticks=tuple((tick, (tick - bottom) / span) for tick in steps),
            heights=(values - bottom) / span,
        )

    def ends(self) -> list[float]:
        """The height of each line's last point; 0 for a line without one."""
        last = []
        for heights in self.heights:
            there = heights[~np.isnan(heights)]
            last.append(float(there[-1]) if there.size else 0.0)
        return last


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from about `low` to about `high`, at most seven, in steps of 1, 2 or 5 times a power of ten."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / (_MOST_TICKS - 1)))
    for step in (factor * power for factor in (1, 2, 5, 10, 20)):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < _MOST_TICKS:
            break
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def spread(wanted: Sequence[float], apart: float) -> list[float]:
    """Places from 0 to 1 as near as may be to the wanted ones, in their order, none nearer than `apart` to another.

    Where there is no room for all, they continue above 1.
    """
    groups: list[list[int]] = []
    for at in sorted(range(len(wanted)), key=lambda one: wanted[one]):
        groups.append([at])
        while len(groups) > 1 and _bottom(groups[-1], wanted, apart) < _top(groups[-2], wanted, apart) + apart - 1e-12:
            last = groups.pop()
            groups[-1] += last
    found = [0.0] * len(wanted)
    for group in groups:
        for number, at in enumerate(group):
            found[at] = _bottom(group, wanted, apart) + apart * number
    return found


def _bottom(group: Sequence[int], wanted: Sequence[float], apart: float) -> float:
    """Where the lowest of a group stands whose members follow each other closely."""
    height = apart * (len(group) - 1)
    center = sum(wanted[at] for at in group) / len(group)
    return max(0.0, min(center - height / 2, 1.0 - height))


def _top(group: Sequence[int], wanted: Sequence[float], apart: float) -> float:
    return _bottom(group, wanted, apart) + apart * (len(group) - 1)


def kept(places: Sequence[float], apart: float) -> list[int]:
    """Numbers of the places whose labels have room: the first, and each that is `apart` from the one before it."""
    chosen: list[int] = []
    for at, place in enumerate(places):
        if not chosen or place - places[chosen[-1]] >= apart - 1e-9:
            chosen.append(at)
    return chosen


def _places(labels: Sequence[str]) -> list[float]:
    """Labels that are rising numbers stand at their values, all others side by side."""
    try:
        values = [float(label) for label in labels]
    except ValueError:
        values = [math.nan]
    rising = all(one < other for one, other in zip(values, values[1:], strict=False))
    return values if rising and all(map(math.isfinite, values)) else [float(at) for at in range(len(labels))]


def _between(places: Sequence[float]) -> tuple[float, ...]:
    """From 0 to 1; a single one stands in the middle."""
    if len(places) < 2:
        return (0.5,) * len(places)
    return tuple((place - places[0]) / (places[-1] - places[0]) for place in places)
