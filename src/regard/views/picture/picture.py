"""A view as a picture, PNG or SVG: every cell a square, each label at its own cell, text that needs no font to be seen.
Lines are drawn by `chart`.

Lengths are in inches, text sizes in points. matplotlib shapes the labels (right-to-left order, joined Arabic letters,
emoji sequences); `fonts` says which fonts draw them.
"""

import io
import json
import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from wcwidth import wrap

from regard.errors import DataError
from regard.files import write_atomically
from regard.views.fonts import drawable, families
from regard.views.labels import readable, shorten, visible
from regard.views.overlay import legend
from regard.views.picture.chart import Chart, chart_of, draw_chart
from regard.views.picture.overlay import OverlayPanel, draw_overlay, overlay_of
from regard.views.picture.panels import DPI, GAP, LABEL_SIZE, NOTE_SIZE, TITLE_SIZE, Panel, Ruler, flow, panel_of
from regard.views.picture.plane import PlanePanel, draw_plane, plane_of
from regard.views.scale import LIGHT, LIGHT_BELOW, Scale, brief, exact, ink, shade
from regard.views.view import Matrix, Overlay, Plane, View

MOST_MATRICES = 64
MOST_PIXELS = 60_000_000

_MARGIN = 0.25
_NUMBER_SIZE = 7.0
_LONGEST_TEXT = 10  # of a cell, in terminal columns
_NO_NUMBER = "#b9bcc4"
_GREY = "#4a4f5a"


def picture(view: View, path: str | Path) -> Path:
    """Draw a view into a file, written whole or not at all.

    The labels go into the file's metadata too (PNG text "Description", SVG description), as JSON, and can be read back.

    Args:
        view: what to draw.
        path: a name ending in .png or .svg.

    Raises:
        DataError: another ending, or more than 64 matrices.
    """
    target = Path(path)
    ending = target.suffix.lower().removeprefix(".")
    if ending not in ("png", "svg"):
        raise DataError(f"a picture is a .png or .svg file, but {str(path)!r} was given")
    labels = [{"title": m.title, "rows": list(m.rows), "columns": list(m.columns)} for m in view.matrices]
    metadata: dict[str, str | None] = {
        "Title": readable(view.title),
        "Description": json.dumps({"notes": list(view.all_notes), "matrices": labels}),
    }
    if ending == "svg":
        metadata["Date"] = None  # the same view is the same file
    content = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's style would draw grids through the cells, or set text that needs a font
        matplotlib.rcParams["svg.hashsalt"] = "regard"
        drawn = figure(view)
        width, height = drawn.get_size_inches()
        dpi = min(DPI, math.sqrt(MOST_PIXELS / (width * height)))
        drawn.savefig(content, format=ending, dpi=dpi, metadata=metadata)
    return write_atomically(target, content.getvalue())


def figure(view: View) -> Figure:
    """Draw a view as a matplotlib figure, without pyplot and its global state.

    Raises:
        DataError: it has more matrices than one picture holds.
    """
    if len(view.matrices) > MOST_MATRICES:
        raise DataError(
            f"a picture holds at most {MOST_MATRICES} matrices, but this view has {len(view.matrices)}; "
            "write it as .html, or choose fewer"
        )
    ruler = Ruler()
    panels = [_placed(view, matrix, ruler) for matrix in view.matrices]
    has_cells = any(isinstance(panel, Panel) for panel in panels)
    has_light = any(isinstance(panel, OverlayPanel) for panel in panels)
    rows = flow(panels, view.across)
    body = max([sum(p.width for p in row) + GAP * (len(row) - 1) for row in rows] + [4.2])
    heading = _wrapped(view.title, body, TITLE_SIZE + 2)
    step = max((panel.step for panel in panels if isinstance(panel, Panel)), default=1)
    thinned = (view.words.shown_every.format(step=step),) if step > 1 else ()
    notes = [line for note in (*view.all_notes, *thinned) for line in _wrapped(note, body, NOTE_SIZE)]
    heights = [max(p.height for p in row) for row in rows]
    foot = (0.45 if has_cells or has_light or not panels else 0.1) + 0.17 * len(notes)
    head = 0.27 * len(heading) + (0.12 if heading else 0.0)
    width = body + 2 * _MARGIN
    height = _MARGIN * 2 + head + sum(heights) + GAP * max(0, len(rows) - 1) + 0.15 + foot
    drawn = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(drawn)
    for number, line in enumerate(heading):
        _write(drawn, line, _MARGIN, height - _MARGIN - 0.27 * number, TITLE_SIZE + 2, va="top")
    scale = Scale.of(view)
    top = height - _MARGIN - head
    for row, tall in zip(rows, heights, strict=True):
        left = _MARGIN
        for panel in row:
            if isinstance(panel, Chart):
                draw_chart(drawn, view, panel, left, top)
            elif isinstance(panel, PlanePanel):
                draw_plane(drawn, panel, left, top)
            elif isinstance(panel, OverlayPanel):
                draw_overlay(drawn, panel, scale, left, top)
            else:
                _draw(drawn, view, panel, scale, left, top)
            left += panel.width + GAP
        top -= tall + GAP
    if (has_cells or has_light) and any(matrix.values.size for matrix in view.matrices):
        low, bar = _scale_bar(scale) if has_cells else (0.0, legend(65))
        _legend(drawn, view, (low, scale.high), bar, ruler, _MARGIN, _MARGIN + 0.17 * len(notes) + 0.08)
    elif not view.matrices:
        _write(drawn, view.words.no_data, _MARGIN, _MARGIN + foot - 0.2, LABEL_SIZE)
    for number, line in enumerate(reversed(notes)):
        _write(drawn, line, _MARGIN, _MARGIN + 0.17 * number, NOTE_SIZE, color=_GREY)
    return drawn


def _placed(view: View, matrix: Matrix, ruler: Ruler) -> Panel | Chart | PlanePanel | OverlayPanel:
    if isinstance(matrix, Overlay):
        return overlay_of(matrix)
    if isinstance(matrix, Plane):
        return plane_of(matrix)
    return (chart_of if view.of_lines else panel_of)(view, matrix, ruler)


def _draw(drawn: Figure, view: View, panel: Panel, scale: Scale, left: float, top: float) -> None:
    matrix = panel.matrix
    width, height = drawn.get_size_inches()
    if panel.title:
        _write(drawn, panel.title, left + panel.left, top, TITLE_SIZE, va="top")
    first = top - panel.top
    _write(drawn, f"{panel.row_axis} ↓", left + panel.left - 0.08, first + 0.05, NOTE_SIZE, ha="right", color=_GREY)
    above = top - (0.26 if panel.title else 0.0)
    _write(drawn, f"{panel.column_axis} →", left + panel.left, above, NOTE_SIZE, va="top", color=_GREY)
    if matrix.values.size == 0:
        _write(drawn, view.words.no_data, left + panel.left, first - 0.2, LABEL_SIZE)
        return
    wide, tall = panel.cell * len(panel.columns), panel.cell * len(panel.rows)
    axes = drawn.add_axes(((left + panel.left) / width, (first - tall) / height, wide / width, tall / height))
    axes.set_xlim(-0.5, len(panel.columns) - 0.5)
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set(color="#9aa0ab", linewidth=0.6)
    _cells(axes, panel, scale)
    _labels(axes, panel)


def _cells(axes: Axes, panel: Panel, scale: Scale) -> None:
    values = panel.matrix.values
    levels = scale.levels(values)
    colors = _colors(levels)
    colors[np.isnan(values)] = to_rgb(_NO_NUMBER)
    edges = {"edgecolors": "white", "linewidth": 0.5} if panel.cell > 0.12 else {"linewidth": 0}
    columns, rows = np.arange(len(panel.columns) + 1) - 0.5, np.arange(len(panel.rows) + 1) - 0.5
    axes.pcolormesh(columns, rows, colors, **edges)
    for row, column in np.argwhere(np.isnan(values)).tolist():
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor="#5b606b", linewidth=0))
    if panel.cell < 0.35:
        return
    for row, column in np.ndindex(values.shape):
        number = float(values[row, column])
        if abs(levels[row, column]) < 0.02 and not panel.matrix.texts and not math.isnan(number):
            continue  # the shade says it; a field of zeros would drown the rest
        background = to_hex(tuple(colors[row, column].tolist()))
        text = brief(number)
        if panel.matrix.texts and panel.matrix.texts[row][column]:
            text = drawable(shorten(visible(panel.matrix.texts[row][column]), _LONGEST_TEXT)) + "\n" + text
        axes.text(column, row, text, ha="center", va="center", size=_NUMBER_SIZE, color=ink(background),
                  family=families(text), parse_math=False, usetex=False)  # fmt: skip


def _labels(axes: Axes, panel: Panel) -> None:
    """One tick per drawn label, fixed before the labels: matplotlib's own ticks would shift them."""
    rows, columns = range(0, len(panel.rows), panel.step), range(0, len(panel.columns), panel.step)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=3)
    for axis, places, labels in ((axes.yaxis, rows, panel.rows), (axes.xaxis, columns, panel.columns)):
        axis.set_ticks(places, [labels[at] for at in places], parse_math=False, usetex=False, size=LABEL_SIZE)
    if panel.tilted:
        axes.tick_params(axis="x", labelrotation=45)
    for tick in axes.get_xticklabels():
        tick.set_fontfamily(families(tick.get_text()))
        if panel.tilted:
            tick.set(ha="left", va="bottom", rotation_mode="anchor")
    for tick in axes.get_yticklabels():
        tick.set(family=families(tick.get_text()), va="center")


def _scale_bar(scale: Scale) -> tuple[float, np.ndarray]:
    """The lowest number of the legend, and its colours."""
    return (-scale.high if scale.signed else 0.0), _colors(np.linspace(-1.0 if scale.signed else 0.0, 1.0, 65))


def _legend(
    drawn: Figure, view: View, ends: tuple[float, float], bar: np.ndarray, ruler: Ruler, left: float, bottom: float
) -> None:
    width, height = drawn.get_size_inches()
    name = f"{view.words.scale}  {exact(ends[0])}"
    _write(drawn, name, left, bottom, NOTE_SIZE, color=_GREY)
    start = left + ruler.width([name], NOTE_SIZE) + 0.08
    axes = drawn.add_axes((start / width, bottom / height, 1.2 / width, 0.12 / height))
    axes.pcolormesh(np.arange(len(bar) + 1), [0, 1], bar[None], edgecolors="face", linewidth=0.4)
    axes.set(xticks=[], yticks=[])
    axes.set_frame_on(False)
    _write(drawn, exact(ends[1]), start + 1.28, bottom, NOTE_SIZE, color=_GREY)


def _colors(levels: np.ndarray) -> np.ndarray:
    """Red, green, blue from 0 to 1 for each level; one axis more."""
    table = np.array([to_rgb(shade(LIGHT_BELOW, -step / 100)) for step in range(-100, 0)]
                     + [to_rgb(shade(LIGHT, step / 100)) for step in range(101)])  # fmt: skip
    return table[np.rint(levels * 100).astype(int) + 100]


def _wrapped(text: str, room: float, size: float) -> list[str]:
    """Lines of text that fit into the room, by an average width of half the size a terminal column."""
    columns = max(24, int(room * 72 / (size * 0.56)))
    return [drawable(line) for line in wrap(readable(text), columns)] if text else []


def _write(
    drawn: Figure,
    text: str,
    left: float,
    bottom: float,
    size: float,
    *,
    ha: str = "left",
    va: str = "bottom",
    color: str = "#16181d",
) -> None:
    width, height = drawn.get_size_inches()
    drawn.text(left / width, bottom / height, text, ha=ha, va=va, size=size, color=color,
               family=families(text), parse_math=False, usetex=False)  # fmt: skip
