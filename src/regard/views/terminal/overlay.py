"""Grids of weights over images, as text: half blocks in the image's colours, or shades of the grid alone.

Several stand side by side where there is room.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from rich.color import Color, ColorSystem
from rich.style import Style

from regard.views.labels import anchored, readable, shorten, width_of
from regard.views.overlay import drawn_size, lit
from regard.views.scale import Scale, brief
from regard.views.view import Overlay, View

_SIDE = 32  # columns of an image in colour
_SHADES = "·░▒▓█"
_GAP = 2


def overlay_blocks(
    view: View, overlays: Sequence[Overlay], scale: Scale, room: int, system: ColorSystem | None
) -> Iterator[list[str]]:
    """Blocks of lines of at most `room` columns, each with as many overlays as fit side by side."""
    drawn = [_drawn(view, overlay, scale, room, system) for overlay in overlays]
    row: list[tuple[list[str], int]] = []
    for lines, width in drawn:
        if row and sum(taken + _GAP for _, taken in row) + width > room:
            yield _side_by_side(row)
            row = []
        row.append((lines, width))
    if row:
        yield _side_by_side(row)


def _side_by_side(row: list[tuple[list[str], int]]) -> list[str]:
    """Lines of several blocks; each line of a block is exactly as wide as its block."""
    tall = max(len(lines) for lines, _ in row)
    filled = [[*lines, *[" " * width] * (tall - len(lines))] for lines, width in row]
    return [(" " * _GAP).join(parts).rstrip() for parts in zip(*filled, strict=True)]


def _drawn(view: View, overlay: Overlay, scale: Scale, room: int, system: ColorSystem | None) -> tuple[list[str], int]:
    if overlay.values.size == 0:
        lines = [view.words.no_data]
    elif system is None:
        lines = _shaded(scale.levels(overlay.values), room)
    else:
        lines = _colored(overlay, scale, min(room, _SIDE), system)
    captions = [line for line in (readable(overlay.title), _strongest(view, overlay)) if line]
    plain = system is None or overlay.values.size == 0
    width = width_of(lines[0]) if plain else drawn_size(overlay.image, min(room, _SIDE))[0]
    width = min(room, max(width, *(min(width_of(line), _SIDE) for line in captions), 1))
    title, *rest = [_filled(anchored(shorten(line, width)), width) for line in captions]
    head = Style(underline=True).render(title, color_system=system) if system is not None and overlay.title else title
    body = [line + " " * (width - width_of(line)) for line in lines] if plain else lines
    return [head, *body, *rest], width


def _strongest(view: View, overlay: Overlay) -> str:
    """Which cell has the largest weight: blocks of colour do not show it to everyone."""
    there = np.nan_to_num(overlay.values, nan=-math.inf)
    if not there.size or not np.isfinite(there).any():
        return ""
    row, column = divmod(int(there.argmax()), there.shape[1])
    row_axis, column_axis = view.axes(overlay)
    cell = f"{row_axis} {overlay.rows[row]}, {column_axis} {overlay.columns[column]}"
    return f"{brief(float(there[row, column]))} {readable(cell)}"


def _filled(line: str, width: int) -> str:
    return line + " " * max(0, width - width_of(line))


def _shaded(levels: np.ndarray, room: int) -> list[str]:
    """Two columns per cell, so that cells are about square; of a grid that is too wide, the strongest of some cells."""
    step = math.ceil(levels.shape[1] * 2 / room)
    if step > 1:
        rows, columns = (math.ceil(size / step) for size in levels.shape)
        padded = np.zeros((rows * step, columns * step))
        padded[: levels.shape[0], : levels.shape[1]] = levels
        levels = padded.reshape(rows, step, columns, step).max((1, 3))
    last = len(_SHADES) - 1
    shades = np.clip(np.rint(levels * last + 0.25), 0, last).astype(int)
    return ["".join(_SHADES[shade] * 2 for shade in row) for row in shades.tolist()]


def _colored(overlay: Overlay, scale: Scale, most: int, system: ColorSystem) -> list[str]:
    """A character is two pixels, one above the other."""
    width, height = drawn_size(overlay.image, most)
    height += height % 2
    pixels = lit(overlay, scale.levels(overlay.values), width, height).tolist()
    lines = []
    for upper, lower in zip(pixels[::2], pixels[1::2], strict=True):
        styles = (
            Style(color=Color.from_rgb(*one), bgcolor=Color.from_rgb(*other))
            for one, other in zip(upper, lower, strict=True)
        )
        lines.append("".join(style.render("▀", color_system=system) for style in styles))
    return lines
