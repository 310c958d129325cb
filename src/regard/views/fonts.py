"""Fonts for pictures: which of them can draw a label, and what stands there where none can.

Chinese and emoji need fonts that many machines lack, so two packages of Noto fonts are dependencies. Behind them stand
matplotlib's own font and whatever the system has. A character that none of them can draw is written as its code point,
such as U+1F600: matplotlib would draw an empty box.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import matplotlib
from matplotlib import font_manager
from matplotlib.ft2font import FaceFlags, FT2Font
from wcwidth import iter_graphemes

from regard.views.labels import escaped, is_ignorable

_PACKAGES = ("manimgx_fonts", "pylopdf_fonts_zh_cn")
# In the order in which they are asked for a glyph; Latin first, so that it does not come from a Chinese font.
_FIRST = ("NotoSans[wght].ttf", "NotoSansSC-Regular.otf", "NotoSansArabic[wght].ttf", "NotoSansHebrew[wght].ttf")
_LATER = ("NotoEmoji[wght].ttf", "NotoSansSymbols[wght].ttf")
_NEVER = ("Serif", "Italic")
# Fonts whose glyphs are boxes or coloured bitmaps, which is not drawing.
_NO_DRAWING = ("lastresort", "last resort", "fallback", "color", "blank")


@dataclasses.dataclass(frozen=True)
class Face:
    """One font: the family name under which matplotlib finds exactly this file, the file, and what it can draw."""

    family: str
    file: str
    covers: frozenset[int]


def drawable(label: str) -> str:
    """The label as it will be drawn: what no font covers is written as U+…; all else is unchanged."""
    return "".join(
        cluster if all(_face(character) for character in _needed(cluster)) else escaped(cluster)
        for cluster in iter_graphemes(label)
    )


def families(label: str) -> list[str]:
    """The families that this (drawable) label needs, in the order in which fonts are asked."""
    needed = {face.family for face in map(_face, _needed(label)) if face is not None}
    standing = [face.family for face in _standing()]
    return [name for name in standing if name in needed] + sorted(needed - set(standing)) or standing[:1]


def shipped(character: str) -> str | None:
    """The file of the first font that comes with the installation and can draw a character; None if none does."""
    return next((face.file for face in _standing() if ord(character) in face.covers), None)


def _needed(text: str) -> Iterable[str]:
    return (character for character in text if not is_ignorable(character))


@cache
def _face(character: str) -> Face | None:
    """The first font that can draw a character: shipped, matplotlib's own, then the system's."""
    code = ord(character)
    known = next((face for face in _standing() if code in face.covers), None)
    return known or next((face for face in _system() if code in face.covers), None)


@cache
def _standing() -> tuple[Face, ...]:
    """The fonts that every installation has."""
    found = {path.name: path for package in _PACKAGES for path in _font_files(package)}
    middle = sorted(name for name in found if not any(word in name for word in (*_FIRST, *_LATER, *_NEVER)))
    order = [found[name] for name in (*_FIRST, *middle, *_LATER) if name in found]
    own = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return tuple(_registered(font_manager.ttfFontProperty(FT2Font(path))) for path in (*order, own))


def _font_files(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from (path for path in Path(folder).iterdir() if path.suffix.lower() in (".ttf", ".otf"))


class _SystemFaces:
    """The machine's upright fonts, opened one by one and only while a character is still missing."""

    def __init__(self) -> None:
        entries = [entry for entry in font_manager.fontManager.ttflist if entry.style == "normal"]
        plain = sorted(entries, key=lambda entry: (entry.weight != 400, "Sans" not in entry.name, entry.name))
        self._waiting = iter([entry for entry in plain if not entry.name.startswith("regard: ")])
        self._opened: list[Face] = []

    def __iter__(self) -> Iterator[Face]:
        yield from self._opened
        for entry in self._waiting:
            if any(word in entry.name.lower() for word in _NO_DRAWING):
                continue
            try:
                font = FT2Font(entry.fname, face_index=entry.index)
            except (OSError, RuntimeError):  # a font that was removed or is damaged
                continue
            if FaceFlags.SCALABLE not in font.face_flags or FaceFlags.COLOR in font.face_flags:
                continue
            self._opened.append(_registered(entry))
            yield self._opened[-1]


@cache
def _system() -> _SystemFaces:
    return _SystemFaces()


def _registered(entry: font_manager.FontEntry) -> Face:
    """Enter a font a second time, under a name of its own: another font of the same family must not be taken for it."""
    name = f"regard: {Path(entry.fname).name} {entry.index}"
    manager = font_manager.fontManager
    if not any(known.name == name for known in manager.ttflist):
        manager.ttflist.append(dataclasses.replace(entry, name=name))
    return Face(name, entry.fname, frozenset(FT2Font(entry.fname, face_index=entry.index).get_charmap()))
