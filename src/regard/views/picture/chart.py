"""A matrix as lines in a picture: each line with its name at its end, marked at each of its points.

Lengths are in inches, text sizes in points.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.views.curves import COLORS, Curves, kept, spread
from regard.views.fonts import drawable, families
from regard.views.labels import readable, shorten
from regard.views.picture.panels import LABEL_SIZE, NOTE_SIZE, Ruler
from regard.views.scale import exact
from regard.views.view import Matrix, View

MARKERS = "os^Dv*PX"
DASHES = ("-", "--", ":", "-.")

_WIDE, _TALL = 5.4, 3.1
_PITCH = 0.19  # between two names
_LONGEST_NAME = 44  # in terminal columns
_LEAD = 0.3  # from a line's end to its name
_MOST_MARKED = 40  # a line of more points has no markers
_PAD = 0.15  # from the upright axis to the first place
_GREY, _LINE = "#4a4f5a", "#9aa0ab"


@dataclass(frozen=True)
class Chart:
    """One matrix as lines, with its measures.

    Args:
        matrix: what is drawn.
        curves: where it stands.
        names: of the lines, as they will stand in the picture.
        columns: labels of the places that have room.
        value_axis: what the numbers are.
        column_axis: what a place is.
        tall: height of the axes.
        left, top, right, bottom: room around the axes.
    """

    matrix: Matrix
    curves: Curves
    names: list[str]
    columns: dict[int, str]
    value_axis: str
    column_axis: str
    tall: float
    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Of the whole, names at the right included."""
        return self.left + _PAD + _WIDE + self.right

    @property
    def height(self) -> float:
        """Of the whole, title and labels included."""
        return self.top + self.tall + self.bottom


def chart_of(view: View, matrix: Matrix, ruler: Ruler) -> Chart:
    """The measures of a matrix drawn as lines."""
    curves = Curves.of(matrix)
    names = [drawable(shorten(readable(label), _LONGEST_NAME)) for label in matrix.rows]
    labels = [drawable(shorten(readable(label), _LONGEST_NAME)) for label in matrix.columns]
    room = (ruler.width(labels, LABEL_SIZE) + 0.1) / _WIDE
    _, column_axis = view.axes(matrix)
    return Chart(
        matrix=matrix,
        curves=curves,
        names=names,
        columns={at: labels[at] for at in kept(curves.across, room)},
        value_axis=drawable(readable(matrix.title)),
        column_axis=drawable(readable(column_axis)),
        tall=max(_TALL, _PITCH * len(names)),
        left=ruler.width([exact(number) for number, _ in curves.ticks], LABEL_SIZE) + 0.15,
        top=0.36,
        right=_LEAD + ruler.width(names, LABEL_SIZE) + 0.05,
        bottom=0.55,
    )


def draw_chart(drawn: Figure, view: View, chart: Chart, left: float, top: float) -> None:
    """Draw it with its upper left corner at that place, in inches from the picture's lower left corner."""
    width, height = drawn.get_size_inches()
    low = top - chart.top - chart.tall
    axes = drawn.add_axes(((left + chart.left) / width, low / height, (_PAD + _WIDE) / width, chart.tall / height))
    axes.set_xlim(-_PAD, _WIDE)  # inches, so that texts and lines are placed alike
    axes.set_ylim(0.0, chart.tall)
    for name, spine in axes.spines.items():
        spine.set(color=_LINE, linewidth=0.6, visible=name in ("left", "bottom"))
    _write(axes, chart.value_axis, -_PAD, chart.tall + 0.12, NOTE_SIZE, va="bottom", color=_GREY)
    _write(axes, f"{chart.column_axis} →", _WIDE, -0.32, NOTE_SIZE, ha="right", va="top", color=_GREY)
    if chart.matrix.values.size == 0:
        axes.set(xticks=[], yticks=[])
        _write(axes, view.words.no_data, _WIDE / 2, chart.tall / 2, LABEL_SIZE, ha="center", va="center")
        return
    _ticks(axes, chart)
    _lines(axes, chart)


def _ticks(axes: Axes, chart: Chart) -> None:
    axes.tick_params(length=3, pad=3, color=_LINE)
    columns = [chart.curves.across[at] * _WIDE for at in chart.columns]
    rows = [height * chart.tall for _, height in chart.curves.ticks]
    numbers = [exact(number) for number, _ in chart.curves.ticks]
    for axis, places, labels in ((axes.xaxis, columns, list(chart.columns.values())), (axes.yaxis, rows, numbers)):
        axis.set_ticks(places, labels, parse_math=False, usetex=False, size=LABEL_SIZE)
    axes.grid(axis="y", color="#e4e7ec", linewidth=0.7)
    axes.set_axisbelow(True)
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        tick.set_fontfamily(families(tick.get_text()))


def _lines(axes: Axes, chart: Chart) -> None:
    across = np.array(chart.curves.across) * _WIDE
    marked = len(across) <= _MOST_MARKED
    for at, place in enumerate(spread(chart.curves.ends(), _PITCH / chart.tall)):
        color, heights = COLORS[at % len(COLORS)], chart.curves.heights[at] * chart.tall
        axes.plot(
            across,
            heights,
            color=color,
            linestyle=DASHES[at // len(COLORS) % len(DASHES)],
            linewidth=1.6,
            marker=MARKERS[at % len(MARKERS)] if marked else "",
            markersize=5,
            clip_on=False,
        )
        there = np.flatnonzero(~np.isnan(heights))
        if there.size:
            start, end = (across[there[-1]] + 0.06, heights[there[-1]]), (_WIDE + _LEAD - 0.05, place * chart.tall)
            axes.plot(*zip(start, end, strict=True), color=color, linewidth=0.6, alpha=0.6, clip_on=False)
        _write(axes, chart.names[at], _WIDE + _LEAD, place * chart.tall, LABEL_SIZE, va="center", color=color)


def _write(axes: Axes, text: str, left: float, bottom: float, size: float, **options: Any) -> None:
    axes.text(left, bottom, text, size=size, family=families(text), parse_math=False, usetex=False, **options)
