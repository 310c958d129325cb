"""Where things stand in a picture: the measures of each matrix with its labels, and matrices side by side.

Lengths are in inches, text sizes in points.
"""

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from regard.views.fonts import drawable, families
from regard.views.labels import readable, shorten, visible
from regard.views.view import Matrix, View

DPI = 144
GAP = 0.3
LABEL_SIZE, TITLE_SIZE, NOTE_SIZE = 9.0, 11.0, 8.5

_LARGEST_CELL, _SMALLEST_CELL = 0.42, 0.02
_GRID_CELL = 0.16  # of many small matrices in a grid; its numbers are left to their shades
_TEXT_CELL = 0.75  # with a word in it
_LONGEST_SIDE = 26.0  # of one matrix without its labels
_PITCH = 0.155  # between two drawn labels
_LONGEST_LABEL = 28  # in terminal columns


@dataclass(frozen=True)
class Panel:
    """One matrix with its measures.

    Args:
        matrix: what is drawn.
        title, rows, columns: the texts as they will stand in the picture.
        row_axis, column_axis: what a row and a column are called.
        cell: side of a cell.
        step: one label in so many is drawn, of rows and of columns.
        tilted: whether column labels stand at 45°.
        left, top, right: room for the labels around the cells.
    """

    matrix: Matrix
    title: str
    rows: list[str]
    columns: list[str]
    row_axis: str
    column_axis: str
    cell: float
    step: int
    tilted: bool
    left: float
    top: float
    right: float

    @property
    def width(self) -> float:
        """Of the whole, row labels included."""
        return self.left + max(1.0, self.cell * len(self.columns)) + self.right

    @property
    def height(self) -> float:
        """Of the whole, column labels and title included."""
        return self.top + max(0.3, self.cell * len(self.rows))


class Ruler:
    """Measures labels as they will be drawn."""

    def __init__(self) -> None:
        self._figure = Figure(dpi=DPI)
        self._canvas = FigureCanvasAgg(self._figure)

    def width(self, labels: list[str], size: float) -> float:
        """Width of the widest label."""
        renderer = self._canvas.get_renderer()
        sizes = (
            Text(0, 0, text, figure=self._figure, size=size, family=families(text), parse_math=False, usetex=False)
            .get_window_extent(renderer)
            .width
            for text in dict.fromkeys(labels)
        )
        return float(max(sizes, default=0.0)) / DPI


def panel_of(view: View, matrix: Matrix, ruler: Ruler) -> Panel:
    """The measures of a matrix drawn as cells."""
    rows = [drawable(shorten(visible(label), _LONGEST_LABEL)) for label in matrix.rows]
    columns = [drawable(shorten(visible(label), _LONGEST_LABEL)) for label in matrix.columns]
    largest = _TEXT_CELL if matrix.texts else _LARGEST_CELL if view.across is None else _GRID_CELL
    cell = max(_SMALLEST_CELL, min(largest, _LONGEST_SIDE / max(1, len(rows), len(columns))))
    widest = ruler.width(columns, LABEL_SIZE)
    tilted = widest > cell * 0.95
    reach = widest * math.sqrt(0.5) if tilted else 0.0
    row_axis, column_axis = (drawable(readable(name)) for name in view.axes(matrix))
    axis_size = ruler.width([f"{row_axis} ↓"], NOTE_SIZE)
    title = drawable(shorten(readable(matrix.title), max(24, int(cell * len(columns) / 0.075))))
    right = max(0.05, reach + 0.1 - cell / 2, ruler.width([title], TITLE_SIZE) - cell * len(columns))
    return Panel(
        matrix=matrix,
        title=title,
        rows=rows,
        columns=columns,
        row_axis=row_axis,
        column_axis=column_axis,
        cell=cell,
        step=math.ceil(_PITCH / cell - 1e-9),
        tilted=tilted,
        left=max(ruler.width(rows, LABEL_SIZE), axis_size) + 0.12,
        top=(reach + 0.12 if tilted else 0.2) + 0.24 + (0.26 if title else 0.0),
        right=right,
    )


@runtime_checkable
class Sized(Protocol):
    """Whatever takes room in a picture."""

    @property
    def width(self) -> float:
        """In inches."""
        ...

    @property
    def height(self) -> float:
        """In inches."""
        ...


AnyPanel = TypeVar("AnyPanel", bound=Sized)


def flow(panels: list[AnyPanel], across: int | None = None) -> list[list[AnyPanel]]:
    """Panels in rows of `across`, or else so that the whole is about as wide as high."""
    if across is not None:
        return [panels[at : at + across] for at in range(0, len(panels), across)]
    area = sum((panel.width + GAP) * (panel.height + GAP) for panel in panels)
    limit = max([panel.width for panel in panels] + [1.2 * math.sqrt(area)])
    rows: list[list[AnyPanel]] = []
    used = 0.0
    for panel in panels:
        if not rows or used + GAP + panel.width > limit + 1e-9:
            rows.append([])
            used = -GAP
        rows[-1].append(panel)
        used += GAP + panel.width
    return rows
