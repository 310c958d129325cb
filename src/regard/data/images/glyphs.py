"""Objects from a font: what they are called, and what they look like in which colours."""

import math
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from regard.data.chance import Chance
from regard.data.images.caption_text import Phrase
from regard.data.images.cutout import Cutout, cut_out
from regard.data.images.scenes import Object
from regard.data.images.settings import CaptionLanguage


class Glyph(NamedTuple):
    """A character of the font and its name; French needs its gender."""

    character: str
    en: str
    fr: str
    feminine: bool
    zh: str


class Color(NamedTuple):
    """A colour with its names; French has one for each gender."""

    rgb: tuple[int, int, int]
    en: str
    fr: str
    fr_feminine: str
    zh: str


GLYPHS = (
    Glyph("♥", "heart", "cœur", False, "爱心"),
    Glyph("☂", "umbrella", "parapluie", False, "雨伞"),
    Glyph("★", "star", "étoile", True, "星星"),
    Glyph("☀", "sun", "soleil", False, "太阳"),
    Glyph("☎", "telephone", "téléphone", False, "电话"),
    Glyph("✈", "plane", "avion", False, "飞机"),
    Glyph("♫", "note", "note", True, "音符"),
    Glyph("⚓", "anchor", "ancre", True, "船锚"),
    Glyph("☁", "cloud", "nuage", False, "云朵"),
    Glyph("✉", "envelope", "enveloppe", True, "信封"),
    Glyph("✿", "flower", "fleur", True, "花朵"),
    Glyph("⚑", "flag", "drapeau", False, "旗子"),
    Glyph("♛", "crown", "couronne", True, "皇冠"),
    Glyph("♞", "horse", "cheval", False, "马"),
)
"""Clearly different shapes with everyday names."""

COLORS = (
    Color((212, 36, 40), "red", "rouge", "rouge", "红色"),
    Color((242, 126, 16), "orange", "orange", "orange", "橙色"),
    Color((236, 196, 14), "yellow", "jaune", "jaune", "黄色"),
    Color((30, 146, 62), "green", "vert", "verte", "绿色"),
    Color((28, 92, 208), "blue", "bleu", "bleue", "蓝色"),
    Color((126, 44, 166), "purple", "violet", "violette", "紫色"),
    Color((248, 120, 186), "pink", "rose", "rose", "粉色"),
    Color((26, 26, 30), "black", "noir", "noire", "黑色"),
)
"""In the order in which a scene's objects are named."""

_DRAWN = 256  # points of the drawing that smaller masks are made of
_SHADE = 12  # of 255: how much a colour varies in each channel


def held_out_pairs(count: int) -> list[tuple[int, int]]:
    """Numbers of the objects and colours that training never has together, spread over all objects and colours."""
    return [
        (number % len(GLYPHS), (3 * (number % len(GLYPHS)) + number // len(GLYPHS)) % len(COLORS))
        for number in range(count)
    ]


class GlyphObjects:
    """Follows `scenes.Cast`: pairs are of a colour and an object.

    Args:
        held_out: how many pairs training never has. An unseen scene has at least one of them, all else is as seen.
        language: of the names.
    """

    from_left = False

    def __init__(self, held_out: int, language: CaptionLanguage) -> None:
        self.language = language
        self.held_out = held_out_pairs(held_out)
        self.seen = [
            [color for color in range(len(COLORS)) if (glyph, color) not in self.held_out]
            for glyph in range(len(GLYPHS))
        ]

    def choose(self, count: int, chance: Chance, *, unseen: bool) -> list[Object]:
        """Different objects of different colours, in the order of their colours.

        So an image's colours fix the order, and each name must be read at its own place in the image.
        """
        pairs: dict[int, int] = {}
        if unseen:
            pairs.update([chance.choose(self.held_out)])
        while len(pairs) < count:
            glyph = chance.below(len(GLYPHS))
            color = chance.choose(self.seen[glyph])
            if glyph not in pairs and color not in pairs.values():
                pairs[glyph] = color
        ordered = sorted(pairs, key=pairs.__getitem__)
        return [self._object(GLYPHS[glyph], COLORS[pairs[glyph]], chance) for glyph in ordered]

    def _object(self, glyph: Glyph, color: Color, chance: Chance) -> Object:
        shade = np.array([value + _SHADE * (2 * chance() - 1) for value in color.rgb], np.float32)
        return Object(phrase(glyph, color, self.language), partial(_cutout, glyph.character, shade.clip(0, 255)))


def phrase(glyph: Glyph, color: Color, language: CaptionLanguage) -> Phrase:
    """An object of a colour as it is named."""
    if language == "fr":
        article, adjective = ("une ", color.fr_feminine) if glyph.feminine else ("un ", color.fr)
        return Phrase(article, glyph.fr, f" {adjective}")
    return Phrase(f"{color.en} ", glyph.en) if language == "en" else Phrase(color.zh, glyph.zh)


def _cutout(character: str, shade: np.ndarray, side: int) -> Cutout:
    return Cutout(shade, mask(character, side))


@cache
def mask(character: str, side: int) -> np.ndarray:
    """How much of each pixel a glyph covers, `(height, width, 1)` from 0 to 1; its longer side has `side` pixels."""
    return cut_out(_drawing(character), side).alpha


@cache
def _drawing(character: str) -> Image.Image:
    """A glyph, large."""
    font = ImageFont.truetype(str(_font()), _DRAWN)
    left, top, right, bottom = (math.floor(edge) for edge in font.getbbox(character))
    drawing = Image.new("RGBA", (right - left + 2, bottom - top + 2))
    ImageDraw.Draw(drawing).text((1 - left, 1 - top), character, font=font, fill=(0, 0, 0, 255))
    return drawing


def _font() -> Path:
    import matplotlib  # its own font comes with every installation

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
