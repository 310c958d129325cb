"""A matrix as lines in a page: an SVG without scripts or inline style; its numbers stand in the table below it.

Lengths are in CSS pixels.
"""

from collections.abc import Iterator
from html import escape

from regard.views.curves import COLORS, COLORS_ON_DARK, Curves, kept, spread
from regard.views.labels import readable, shorten, width_of
from regard.views.scale import exact
from regard.views.view import Matrix, View

_WIDE, _TALL = 520.0, 300.0
_LEFT, _TOP, _BOTTOM = 56.0, 30.0, 52.0
_PAD = 14.0  # from the upright axis to the first place
_LEAD = 28.0  # from a line's end to its name
_PITCH = 18.0  # between two names
_COLUMN = 7.4  # width of a terminal column of text
_LONGEST_NAME = 44  # in terminal columns
_DASHES = ("", "7 4", "2 4", "7 4 2 4")


def line_rules() -> str:
    """The colours of the lines, on light and on dark paper."""

    def rules(colors: tuple[str, ...]) -> str:
        return "".join(f".line{at}{{color:{color}}}" for at, color in enumerate(colors))

    return f"{rules(COLORS)}\n@media (prefers-color-scheme:dark){{{rules(COLORS_ON_DARK)}}}\n"


def drawn_lines(view: View, matrix: Matrix) -> str:
    """The SVG element of one matrix."""
    curves = Curves.of(matrix)
    names = [shorten(readable(label), _LONGEST_NAME) for label in matrix.rows]
    tall = max(_TALL, _PITCH * len(names))
    width = _LEFT + _PAD + _WIDE + _LEAD + 8 + _COLUMN * max(map(width_of, names), default=0)
    height = _TOP + tall + _BOTTOM
    parts = [*_axes(view, matrix, curves, tall), *_lines(matrix, curves, names, tall)]
    name = escape(readable(matrix.title) or readable(view.title))
    return (
        f'<div class="scroll"><svg class="chart" role="img" aria-label="{name}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">\n' + "\n".join(parts) + "\n</svg></div>\n"
    )


def _axes(view: View, matrix: Matrix, curves: Curves, tall: float) -> Iterator[str]:
    bottom = _TOP + tall
    _, column_axis = view.axes(matrix)
    yield f'<text class="axis" x="{_LEFT}" y="14">{escape(readable(matrix.title))}</text>'
    for number, height in curves.ticks:
        at = bottom - height * tall
        yield f'<path class="rule" d="M{_LEFT} {at:.1f}h{_PAD + _WIDE}"/>'
        yield f'<text class="axis" text-anchor="end" x="{_LEFT - 8}" y="{at + 4:.1f}">{exact(number)}</text>'
    labels = [shorten(readable(label), _LONGEST_NAME) for label in matrix.columns]
    room = (max(map(width_of, labels), default=0) * _COLUMN + 10) / _WIDE
    for at in kept(curves.across, room):
        left, text = _across(curves.across[at]), escape(labels[at])
        yield f'<text class="axis" text-anchor="middle" x="{left:.1f}" y="{bottom + 18:.1f}">{text}</text>'
    end = _across(1.0)
    yield (
        f'<text class="axis" text-anchor="end" x="{end}" y="{bottom + 40:.1f}">{escape(readable(column_axis))} →</text>'
    )


def _lines(matrix: Matrix, curves: Curves, names: list[str], tall: float) -> Iterator[str]:
    bottom = _TOP + tall
    for at, place in enumerate(spread(curves.ends(), _PITCH / tall)):
        points = [
            None if height != height else (_across(across), bottom - height * tall)
            for across, height in zip(curves.across, curves.heights[at].tolist(), strict=True)
        ]
        dash = _DASHES[at // len(COLORS) % len(_DASHES)]
        yield f'<g class="line{at % len(COLORS)}">'
        yield f'<path class="curve" stroke-dasharray="{dash or "none"}" d="{_path(points)}"/>'
        labelled = zip(points, matrix.columns, matrix.values[at].tolist(), strict=True)
        for point, label, value in labelled:
            if point is not None:
                title = escape(f"{names[at]} · {readable(label)} · {exact(value)}")
                yield f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="4"><title>{title}</title></circle>'
        there = [point for point in points if point is not None]
        left, height = _across(1.0) + _LEAD, bottom - place * tall
        if there:
            yield f'<path class="lead" d="M{there[-1][0] + 6:.1f} {there[-1][1]:.1f}L{left - 4:.1f} {height:.1f}"/>'
        yield f'<text x="{left:.1f}" y="{height + 4:.1f}">{escape(names[at])}</text></g>'


def _across(place: float) -> float:
    return _LEFT + _PAD + place * _WIDE


def _path(points: list[tuple[float, float] | None]) -> str:
    """A line through the points, broken where there is none."""
    steps, pen = [], "M"
    for point in points:
        if point is not None:
            steps.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        pen = "M" if point is None else "L"
    return "".join(steps)
