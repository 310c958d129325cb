"""A plane in a page: an SVG without scripts or inline style; the points' coordinates stand in the table below it.

Lengths are in CSS pixels.
"""

import math
from collections.abc import Iterator
from html import escape

import numpy as np

from regard.views.curves import COLORS
from regard.views.labels import readable, shorten, visible
from regard.views.plane import PlaneLayout
from regard.views.view import Plane, View

_SIDE, _MARGIN = 300.0, 26.0
_LONGEST_NAME = 12  # in terminal columns


def drawn_plane(view: View, plane: Plane) -> str:
    """The SVG element of one plane."""
    layout = PlaneLayout.of(plane)
    width, height = layout.wide * _SIDE + 2 * _MARGIN, layout.tall * _SIDE + 2 * _MARGIN
    name = escape(readable(plane.title) or readable(view.title))
    return (
        f'<div class="scroll"><svg class="chart" role="img" aria-label="{name}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">\n'
        + "\n".join(_parts(layout, height))
        + "\n</svg></div>\n"
    )


def points_of(plane: Plane) -> Plane:
    """The points of a plane, each once, without its lines."""
    stops = zip(plane.rows, map(tuple, plane.values.tolist()), strict=True)
    points = list(dict.fromkeys(stop for stop in stops if all(map(math.isfinite, stop[1]))))
    return Plane(
        [list(place) for _, place in points] or np.zeros((0, 2)), [label for label, _ in points], plane.columns
    )


def _parts(layout: PlaneLayout, height: float) -> Iterator[str]:
    def at(x: float, y: float) -> tuple[str, str]:
        return f"{_MARGIN + x * _SIDE:.1f}", f"{height - _MARGIN - y * _SIDE:.1f}"

    for number, polyline in enumerate(layout.polylines):
        path = "L".join(" ".join(at(mark.x, mark.y)) for mark in polyline)
        yield f'<g class="line{number % len(COLORS)}"><path class="curve" d="M{path}"/></g>'
    for mark in layout.marks:
        x, y = at(mark.x, mark.y)
        label = escape(shorten(visible(mark.label), _LONGEST_NAME))
        yield f'<g class="mark"><circle cx="{x}" cy="{y}" r="3"/>'
        yield f'<text x="{float(x) + 5:.1f}" y="{float(y) - 5:.1f}">{label}</text></g>'
