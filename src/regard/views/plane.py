"""Where the points of a plane and the lines between them stand, in numbers from 0 to 1: the same for all renderers."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.views.view import Plane


class Mark(NamedTuple):
    """A point with its label; 0, 0 is at the bottom left."""

    label: str
    x: float
    y: float


@dataclass(frozen=True)
class PlaneLayout:
    """A plane laid out.

    Attributes:
        marks: every point once, in the order in which they come first.
        polylines: the points of each run of rows, two or more.
        wide, tall: sides of the whole, the longer one 1.
    """

    marks: tuple[Mark, ...]
    polylines: tuple[tuple[Mark, ...], ...]
    wide: float
    tall: float

    @classmethod
    def of(cls, plane: Plane) -> "PlaneLayout":
        """Lay a plane out, one scale for both axes."""
        there = plane.values[np.isfinite(plane.values).all(1)]
        low = there.min(0) if len(there) else np.zeros(2)
        sides = there.max(0) - low if len(there) else np.ones(2)
        size = float(sides.max()) or 1.0
        polylines: list[list[Mark]] = [[]]
        for label, (x, y) in zip(plane.rows, plane.values.tolist(), strict=True):
            if math.isfinite(x) and math.isfinite(y):
                polylines[-1].append(Mark(label, (x - low[0]) / size, (y - low[1]) / size))
            else:
                polylines.append([])
        marks = tuple(dict.fromkeys(mark for polyline in polylines for mark in polyline))
        return cls(
            marks, tuple(tuple(polyline) for polyline in polylines if len(polyline) > 1), *(sides / size).tolist()
        )
