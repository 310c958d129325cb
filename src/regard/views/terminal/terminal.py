"""A view as text: a heat map with a number in each cell, in colour or in shades ░▒▓█; of lines, one bar per number."""

import math
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import cast

from rich.color import Color, ColorSystem
from rich.console import Console
from rich.style import Style
from wcwidth import wrap

from regard.views.curves import Curves
from regard.views.labels import anchored, readable, shorten, visible, width_of
from regard.views.scale import EITHER, EITHER_BELOW, Scale, brief, exact, ink, shade
from regard.views.terminal.overlay import overlay_blocks
from regard.views.terminal.plane import plotted
from regard.views.view import Matrix, Overlay, Plane, View

Paint = Callable[[str, float], str]

_SHADES = " ░▒▓█"
_BARS = "▁▂▃▄▅▆▇█"
_FAINT = 0.1  # levels below this keep the terminal's own background
_READABLE_LABEL = 7  # columns are split into panels rather than cut shorter than this
_LONGEST_LABEL = 20  # columns that one label may take, even where there is room


def terminal(view: View, width: int | None = None, color: bool | None = None) -> str:
    """Lay a view out as lines of text.

    Labels that do not fit are cut with …; columns that do not fit continue in a further panel below.

    Args:
        view: what to show.
        width: columns of the terminal, at least 20; None asks the terminal.
        color: ANSI colours or shade characters; None asks the terminal (NO_COLOR, a pipe or 16 colours mean shades).

    Returns:
        The text, without a final line break; no line is wider than `width`.
    """
    console = Console()
    room = max(20, console.width if width is None else width)
    system = _color_system(console, color)
    scale = Scale.of(view)
    paint = _shades if system is None else _colors(system)
    blocks: list[list[str]] = []
    if view.title:
        title = wrap(readable(view.title), room)
        blocks.append([_styled(line, Style(bold=True), system) for line in title])
    for over, group in groupby(view.overview or view.matrices, key=lambda matrix: isinstance(matrix, Overlay)):
        if over:
            blocks.extend(overlay_blocks(view, cast("list[Overlay]", list(group)), scale, room, system))
        else:
            blocks.extend(list(_matrix_lines(view, matrix, scale, room, paint, system)) for matrix in group)
    if not view.matrices:
        blocks.append([view.words.no_data])
    notes = [line for note in view.all_notes for line in wrap(readable(note), room)]
    blocks.append([_styled(line, Style(dim=True, italic=True), system) for line in notes])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _color_system(console: Console, color: bool | None) -> ColorSystem | None:
    names = {"256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}
    detected = names.get(console.color_system or "")
    if color is None:
        return detected
    return (detected or ColorSystem.EIGHT_BIT) if color else None


def _matrix_lines(
    view: View, matrix: Matrix, scale: Scale, room: int, paint: Paint, system: ColorSystem | None
) -> Iterator[str]:
    if matrix.title:
        yield from (_styled(line, Style(underline=True), system) for line in wrap(readable(matrix.title), room))
    if matrix.values.size == 0:
        yield view.words.no_data
        return
    if isinstance(matrix, Plane):
        yield from plotted(matrix, room)
        return
    row_axis, column_axis = view.axes(matrix)
    yield from wrap(readable(f"{row_axis} ↓  {column_axis} →"), room)
    shape = readable if view.of_lines else visible  # a line has a name, in which a blank is a blank
    rows = [shape(label) for label in matrix.rows]
    side = min(max(map(width_of, rows)), max(6, room // 3))
    columns = [shape(label) for label in matrix.columns]
    if view.of_lines:
        numbers, paint = _barred(matrix), _unpainted
    else:
        numbers = [[brief(value) for value in row] for row in matrix.values.tolist()]
    if matrix.texts:
        numbers = [
            [f" {anchored(visible(text))} {number}" if text else number for text, number in zip(*row, strict=True)]
            for row in zip(matrix.texts, numbers, strict=True)
        ]
    levels = scale.levels(matrix.values).tolist()
    widths = _column_widths(columns, numbers, room - side - 1)
    for number, (first, last) in enumerate(_panels(widths, room - side - 1)):
        if number:
            yield ""
        heads = (_centered(shorten(columns[at], widths[at] - 1), widths[at]) for at in range(first, last))
        yield " " * (side + 1) + "".join(heads).rstrip()
        for at_row, label in enumerate(rows):
            short = shorten(label, side)
            head = " " * (side - width_of(short)) + anchored(short) + " "
            body = (paint(_right(numbers[at_row][at], widths[at]), levels[at_row][at]) for at in range(first, last))
            yield head + "".join(body)


def _column_widths(columns: list[str], numbers: list[list[str]], room: int) -> list[int]:
    """A width for each column: its label's if all columns fit, else the largest common limit with which they fit."""
    least = 1 + max(width_of(number) for row in numbers for number in row)
    natural = [max(least, width_of(label) + 1) for label in columns]
    limit = min(max(natural), _LONGEST_LABEL + 1)
    while sum(min(width, limit) for width in natural) > room and limit > least:
        limit -= 1
    if sum(min(width, limit) for width in natural) > room or limit <= _READABLE_LABEL:
        limit = max(limit, _READABLE_LABEL + 1)
    return [max(least, min(width, limit, room)) for width in natural]


def _panels(widths: list[int], room: int) -> Iterator[tuple[int, int]]:
    """Ranges of columns that fit into the room side by side."""
    first, used = 0, 0
    for at, width in enumerate(widths):
        if used + width > room and at > first:
            yield first, at
            first, used = at, 0
        used += width
    yield first, len(widths)


def _right(cell: str, width: int) -> str:
    return " " * (width - width_of(cell)) + cell


def _centered(label: str, width: int) -> str:
    """The label in the middle of its column, a little to the right, so that it stands over the number."""
    blank = width - width_of(label)
    left = (blank + 1) // 2
    return " " * left + anchored(label) + " " * (blank - left)


def _barred(matrix: Matrix) -> list[list[str]]:
    """Each number behind a bar of its height, on the upright axis that the picture has: a row is a small chart."""
    heights = Curves.of(matrix).heights.tolist()
    pairs = [zip(one, values, strict=True) for one, values in zip(heights, matrix.values.tolist(), strict=True)]
    return [[_bar(height) + ("–" if math.isnan(value) else exact(value)) for height, value in row] for row in pairs]


def _bar(height: float) -> str:
    return " " if math.isnan(height) else _BARS[round(height * (len(_BARS) - 1))]


def _unpainted(cell: str, level: float) -> str:
    return cell


def _shades(cell: str, level: float) -> str:
    number = cell.lstrip()
    glyph = _SHADES[min(len(_SHADES) - 1, round(abs(level) * (len(_SHADES) - 1) + 0.25))] if level else " "
    blank = len(cell) - len(number)
    return " " * min(blank - 1, 1) + glyph * (blank - min(blank - 1, 1)) + number


def _colors(system: ColorSystem) -> Paint:
    def paint(cell: str, level: float) -> str:
        if abs(level) < _FAINT:
            return Style(dim=True).render(cell, color_system=system)
        background = shade(EITHER if level > 0 else EITHER_BELOW, abs(level))
        style = Style(color=Color.parse(ink(background)), bgcolor=Color.parse(background), bold=abs(level) > 0.5)
        return style.render(cell, color_system=system)

    return paint


def _styled(text: str, style: Style, system: ColorSystem | None) -> str:
    return style.render(text, color_system=system) if system is not None else text
