"""A view as one HTML file that loads nothing, runs nothing but its own few lines, and reads well without them.

The page is tables, each under a chart where the view is of lines: a screen reader says a cell's row and column by
itself, and a browser without scripts shows all. The script adds arrow keys and a line that names the cell under the
pointer. A Content-Security-Policy allows exactly this style and this script, by their hashes.
"""

import base64
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files

from regard.views.labels import readable, visible, width_of
from regard.views.page.chart import drawn_lines, line_rules
from regard.views.page.overlay import overlay_rules, veil_class
from regard.views.page.plane import drawn_plane, points_of
from regard.views.page.webfonts import embedded
from regard.views.scale import DARK, DARK_BELOW, LIGHT, LIGHT_BELOW, Ramp, Scale, exact, ink, shade
from regard.views.view import Matrix, Overlay, Plane, View

_STEPS = 50  # shades per ramp
_MOST_NUMBERS = 24  # wider tables show shades only; their numbers appear at the pointer
_LONG_LABEL = 24
_LEVEL_LABELS = 90  # terminal columns of labels that still stand side by side; more of them stand upright


def page(view: View) -> str:
    """The whole file, as text to be saved in UTF-8."""
    words = view.words
    title = escape(readable(view.title)) or "regard"
    scale = Scale.of(view)
    head = _notes(view) + _legend(view, scale) + _contents(view)
    matrices = (*view.overview, *view.matrices)
    planes = [matrix for matrix in matrices if isinstance(matrix, Plane)]
    overlays = {number: matrix for number, matrix in enumerate(matrices, start=1) if isinstance(matrix, Overlay)}
    sections = [_section(view, matrix, number, scale) for number, matrix in enumerate(matrices, start=1)]
    above = len(view.overview)
    body = "\n".join(sections[:above] + _grid(view, sections[above:]))
    style = (
        _resource("page.css")
        + _grid_rule(view)
        + (line_rules() if view.of_lines or planes else "")
        + (_shade_rules() if not view.of_lines and len(planes) + len(overlays) < max(1, len(matrices)) else "")
        + overlay_rules(overlays)
        + embedded(title + head + body + words.hint + words.no_data)
    )
    script = _resource("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; font-src data:; "
        f"{'img-src data:; ' if overlays else ''}base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="{words.code}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1 dir="auto">{title}</h1>
{head}</header>
<main>
{body or f'<p class="nothing">{escape(words.no_data)}</p>'}
</main>
<p id="here" role="status">{escape(words.hint)}</p>
<script>{script}</script>
</body>
</html>
"""


def _grid(view: View, sections: list[str]) -> list[str]:
    return sections if view.across is None else ['<div class="grid">', *sections, "</div>"]


def _grid_rule(view: View) -> str:
    return "" if view.across is None else f".grid{{grid-template-columns:repeat({view.across},max-content)}}\n"


def _resource(name: str) -> str:
    return files("regard.views.page").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _shade_rules() -> str:
    """One class per shade: each cell carries a class, which is short and needs no inline style."""

    def rules(above: Ramp, below: Ramp) -> Iterator[str]:
        for letter, ramp in (("a", above), ("b", below)):
            for step in range(_STEPS + 1):
                color = shade(ramp, step / _STEPS)
                yield f".{letter}{step}{{background:{color};color:{ink(color)}}}"
        yield f".bar{{background:linear-gradient(to right,{','.join(above)})}}"
        yield f".bar.signed{{background:linear-gradient(to right,{','.join((*reversed(below), *above))})}}"

    dark = "\n".join(rules(DARK, DARK_BELOW))
    return "\n".join(rules(LIGHT, LIGHT_BELOW)) + f"\n@media (prefers-color-scheme:dark){{{dark}}}\n"


def _notes(view: View) -> str:
    return "".join(f'<p class="note" dir="auto">{escape(readable(note))}</p>\n' for note in view.all_notes)


def _legend(view: View, scale: Scale) -> str:
    cells = [matrix for matrix in view.matrices if not isinstance(matrix, Plane)]
    if view.of_lines or not any(matrix.values.size for matrix in cells):
        return ""
    low, kind = (exact(-scale.high), "bar signed") if scale.signed else ("0", "bar")
    if all(isinstance(matrix, Overlay) for matrix in cells):
        low, kind = "0", "bar light"
    return (
        f'<p class="legend">{escape(view.words.scale)} <span>{low}</span>'
        f'<span class="{kind}"></span><span>{exact(scale.high)}</span></p>\n'
    )


def _contents(view: View) -> str:
    matrices = (*view.overview, *view.matrices)
    if len(matrices) < 3:
        return ""
    items = "".join(
        f'<li><a href="#m{number}" dir="auto">{escape(_name(view, matrix, number))}</a></li>'
        for number, matrix in enumerate(matrices, start=1)
    )
    return (
        f"<nav><details><summary>{escape(view.words.contents)} ({len(matrices)})</summary>"
        f"<ol>{items}</ol></details></nav>\n"
    )


def _name(view: View, matrix: Matrix, number: int) -> str:
    return readable(matrix.title) if matrix.title else view.words.matrix.format(number=number)


def _section(view: View, matrix: Matrix, number: int, scale: Scale) -> str:
    name = _name(view, matrix, number)
    heading = f'<h2 id="h{number}" dir="auto">{escape(name)}</h2>' if matrix.title or len(view.matrices) > 1 else ""
    label = f'aria-labelledby="h{number}"' if heading else f'aria-label="{escape(name)}"'
    if matrix.values.size == 0:
        return f'<section id="m{number}">{heading}<p class="nothing">{escape(view.words.no_data)}</p></section>'
    chart = drawn_lines(view, matrix) if view.of_lines else ""
    if isinstance(matrix, Plane):
        drawn = drawn_plane(view, matrix) + _coordinates(view, matrix, number, scale)
        return f'<section id="m{number}">{heading}\n{drawn}</section>'
    return (
        f'<section id="m{number}">{heading}\n{chart}<div class="scroll" role="region" tabindex="0" {label}>\n'
        f"{_table(view, matrix, number, scale)}</div></section>"
    )


def _coordinates(view: View, plane: Plane, number: int, scale: Scale) -> str:
    """The numbers of a plane, each point once, folded away: the drawing says where they are."""
    points = points_of(plane)
    summary = f"{escape(readable(view.axes(plane)[1]))} ({len(points.rows)})"
    return f"<details><summary>{summary}</summary>\n{_table(view, points, number, scale)}</details>\n"


def _table(view: View, matrix: Matrix, number: int, scale: Scale) -> str:
    shape = readable if view.of_lines else visible  # a line has a name, in which a blank is a blank
    rows, columns = [shape(label) for label in matrix.rows], [shape(label) for label in matrix.columns]
    row_axis, column_axis = (escape(readable(name)) for name in view.axes(matrix))
    in_grid = view.across is not None and matrix in view.matrices
    kinds = ["numbers" if view.of_lines or (len(columns) <= _MOST_NUMBERS and not in_grid) else "shades"]
    if in_grid or sum(max(4, width_of(label)) for label in columns) > _LEVEL_LABELS:
        kinds.append("upright")
    heads = "".join(_head("col", label) for label in columns)
    if isinstance(matrix, Overlay):
        kinds = ["shades", "over", f"over{number}"]
    if view.of_lines or isinstance(matrix, Plane):
        bodies = [_plain_cells(values) for values in matrix.values.tolist()]
    else:
        texts = matrix.texts or [()] * len(rows)
        name = veil_class if isinstance(matrix, Overlay) else _shade_class
        shaded = zip(matrix.values.tolist(), scale.levels(matrix.values).tolist(), texts, strict=True)
        bodies = [_cells(*one, name) for one in shaded]
    lines = [f"<tr>{_head('row', label)}{body}</tr>" for label, body in zip(rows, bodies, strict=True)]
    return (
        f'<table class="{" ".join(kinds)}" data-row="{row_axis}" data-column="{column_axis}">\n'
        f'<thead><tr><td class="corner">{row_axis}&nbsp;↓ {column_axis}&nbsp;→</td>{heads}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table>\n"
    )


def _head(scope: str, label: str) -> str:
    text = escape(label)
    title = f' title="{text}"' if width_of(label) > _LONG_LABEL else ""  # the style cuts long labels
    return f'<th scope="{scope}"{title}><bdi>{text}</bdi></th>'


def _cells(values: list[float], levels: list[float], texts: Sequence[str], name: Callable[[float], str]) -> str:
    shades = map(name, levels)
    words = texts or [""] * len(values)
    before = [f"<b><bdi>{escape(visible(text))}</bdi></b> " if text else "" for text in words]
    return "".join(
        f"<td class={'none' if math.isnan(value) else strength}>{text}{_number(value)}"
        for value, strength, text in zip(values, shades, before, strict=True)
    )


def _shade_class(level: float) -> str:
    return f"{'ab'[level < 0]}{round(abs(level) * _STEPS)}"


def _plain_cells(values: list[float]) -> str:
    return "".join(f"<td>{'–' if math.isnan(value) else _number(value)}" for value in values)


def _number(value: float) -> str:
    """Three decimals for weights (one digit of tiny ones), four digits for anything from 1 on."""
    if value and abs(value) < 1:
        short = f"{value:.3f}".replace("-", "−")
        return short if abs(value) >= 0.0005 else f"{value:.1g}".replace("-", "−")
    return exact(value)
