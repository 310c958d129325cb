"""A plane as text: points by their labels, the lines between them as dots."""

from regard.views.labels import shorten, visible, width_of
from regard.views.plane import PlaneLayout
from regard.views.view import Plane

_WIDEST, _HIGHEST = 64, 26
_FLAT = 2.0  # a terminal's cell is about twice as high as wide
_BETWEEN = "·"


def plotted(plane: Plane, room: int) -> list[str]:
    """The plane in at most so many columns."""
    layout = PlaneLayout.of(plane)
    names = {mark: shorten(visible(mark.label), 6) for mark in layout.marks}
    margin = max(map(width_of, names.values()), default=1)
    across = max(8, min(_WIDEST, room - margin, round(_HIGHEST * _FLAT * max(layout.wide, 0.2))))
    unit = min(across / max(layout.wide, 1e-9), _HIGHEST * _FLAT / max(layout.tall, 1e-9))
    columns, rows = round(layout.wide * unit) + 1, round(layout.tall * unit / _FLAT) + 1
    cells = [[" "] * (columns + margin) for _ in range(rows)]

    def place(x: float, y: float) -> tuple[int, int]:
        return rows - 1 - round(y * unit / _FLAT), round(x * unit)

    for polyline in layout.polylines:
        for one, other in zip(polyline, polyline[1:], strict=False):
            steps = max(1, round(unit * max(abs(other.x - one.x), abs(other.y - one.y))))
            for step in range(steps + 1):
                share = step / steps
                row, column = place(one.x + (other.x - one.x) * share, one.y + (other.y - one.y) * share)
                cells[row][column] = _BETWEEN
    for mark, name in names.items():
        row, column = place(mark.x, mark.y)
        for at, letter in enumerate(name):
            if column + at < columns + margin:
                cells[row][column + at] = letter
    return ["".join(line).rstrip() for line in cells]
