"""Synthetic scenes: what is said of them follows from the image alone."""

import re
from itertools import combinations

import numpy as np
import pytest
from pydantic import ValidationError

from regard.data.chance import Chance
from regard.data.images.caption_text import Phrase, caption
from regard.data.images.captioned import PARTS
from regard.data.images.cutout import Cutout
from regard.data.images.glyphs import COLORS, GLYPHS, GlyphObjects, held_out_pairs, mask, phrase
from regard.data.images.placement import place_objects, relation
from regard.data.images.scenes import Object, SyntheticScenes
from regard.data.images.settings import GlyphScenes
from regard.data.images.sources import image_source
from regard.errors import ConfigError

SCENES = [image_source(GlyphScenes(), 3, "training")[number] for number in range(80)]
COLORED = re.compile(" (?:and )?(above|below|left of|right of) ")


def said(scene):
    """Colour and object of each, and the relations of the first one, read from the caption."""
    one, *rest = COLORED.split(scene.captions[0])
    return [tuple(each.split(" ")) for each in (one, *rest[1::2])], rest[::2]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ((0, 12, 10, 22), "above"),
        ((0, 11, 10, 21), None),  # one pixel between them is too little
        ((5, 12, 15, 22), "above"),  # centres 5 aside and 12 down
        ((7, 12, 17, 22), None),  # 7 aside and 12 down is slanting
        ((0, -12, 10, -2), "below"),
        ((13, 3, 23, 13), "left"),
        ((-13, 0, -3, 10), "right"),
        ((2, 2, 8, 8), None),
        ((0, 0, 10, 10), None),
    ],
)
def test_a_relation_is_clear_or_none(other, expected):
    assert relation((0, 0, 10, 10), other) == expected


def test_a_scene_is_the_same_whenever_it_is_asked_for():
    again = image_source(GlyphScenes(), 3, "training")
    later = [again[number] for number in (79, 7)]
    for scene, other in zip((SCENES[79], SCENES[7]), later, strict=True):
        assert np.array_equal(scene.pixels, other.pixels) and scene[1:] == other[1:]
    firsts = [image_source(GlyphScenes(), seed, part)[0].pixels for seed in (3, 4) for part in PARTS]
    assert not any(np.array_equal(one, other) for one, other in combinations(firsts, 2))
    beyond = again[10**9]
    assert len(again) == 20_000 and beyond.pixels.shape == (64, 64, 3) and beyond.place == "training scene 1000000000"
    with pytest.raises(IndexError, match="-1"):
        again[-1]


def test_the_caption_says_what_stands_where():
    colors = [color.en for color in COLORS]
    seen = set()
    for scene in SCENES:
        objects, relations = said(scene)
        boxes = [named.box for named in scene.named]
        assert [scene.captions[0][named.start : named.end] for named in scene.named] == [name for _, name in objects]
        assert len({name for _, name in objects}) == len(objects) == len(boxes) == len(relations) + 1
        order = [colors.index(color) for color, _ in objects]
        assert order == sorted(set(order))  # rising: no colour comes twice
        left, top, right, bottom = boxes[0]
        for how, (to_left, to_top, to_right, to_bottom) in zip(relations, boxes[1:], strict=True):
            across, down = (to_left + to_right - left - right) / 2, (to_top + to_bottom - top - bottom) / 2
            apart, aside = {
                "above": (to_top - bottom, across),
                "below": (top - to_bottom, across),
                "left of": (to_left - right, down),
                "right of": (left - to_right, down),
            }[how]
            assert apart >= 2 and 2 * abs(aside) <= max(abs(across), abs(down))
            seen.add(how)
        for one, other in combinations(boxes, 2):
            assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    assert seen == {"above", "below", "left of", "right of"} and {len(said(scene)[0]) for scene in SCENES} == {2, 3}


def test_boxes_hold_all_ink_and_are_small():
    for scene in SCENES:
        pixels = scene.pixels.astype(int)
        ground = np.median(pixels, (0, 1))
        far = np.abs(pixels - ground).max(2)
        outside = np.ones((64, 64), bool)
        for *_, (left, top, right, bottom) in scene.named:
            inside = far[int(top) : int(bottom), int(left) : int(right)]
            assert inside.size <= 0.12 * 64 * 64 and max(inside.shape) >= 15 and inside.max() > 60
            outside[int(top) : int(bottom), int(left) : int(right)] = False
        assert far[outside].max() <= 14  # the canvas alone is a little darker towards one side


def test_the_outer_rows_and_columns_of_a_mask_have_ink():
    for glyph in GLYPHS:
        for side in (11, 22):
            alpha = mask(glyph.character, side)[..., 0]
            assert side - 1 <= max(alpha.shape) <= side and alpha.max() > 0.9
            edges = (alpha[0], alpha[-1], alpha[:, 0], alpha[:, -1])
            assert min(edge.max() for edge in edges) >= 24 / 255 - 1e-6


def test_a_box_is_where_the_stamp_was_pasted():
    class Bars:
        from_left = False

        def choose(self, count, chance, *, unseen):
            cutout = Cutout(np.zeros(3, np.float32), np.ones((5, 11, 1), np.float32))
            return [Object(Phrase("", name), lambda side: cutout) for name in ("one", "two", "three")[:count]]

    scene = SyntheticScenes(Bars(), GlyphScenes(size=37, fewest=3), 0, "test")[2]
    black = (scene.pixels == 0).all(2)
    expected = np.zeros((37, 37), bool)
    for _, _, (left, top, right, bottom) in scene.named:
        assert (right - left, bottom - top) == (11, 5)
        expected[int(top) : int(bottom), int(left) : int(right)] = True
    assert np.array_equal(black, expected) and scene.pixels.shape == (37, 37, 3)


def test_colour_and_shape_are_seen_in_the_picture():
    shapes = [glyph.en for glyph in GLYPHS]
    for scene in SCENES[:40]:
        pixels = scene.pixels.astype(float)
        ground = np.median(pixels, (0, 1))
        for (color, name), named in zip(said(scene)[0], scene.named, strict=True):
            left, top, right, bottom = map(int, named.box)
            inside = pixels[top:bottom, left:right]
            far = np.linalg.norm(inside - ground, axis=2)
            ink = np.median(inside[far >= 0.9 * far.max()], 0)
            nearest = min(COLORS, key=lambda one: np.linalg.norm(ink - np.array(one.rgb)))
            assert nearest.en == color
            alike = {
                shapes[at]: np.abs(far / far.max() - drawn[..., 0]).mean()
                for at, glyph in enumerate(GLYPHS)
                for side in (max(far.shape), max(far.shape) + 1)
                if (drawn := mask(glyph.character, side)).shape[:2] == far.shape
            }
            assert min(alike, key=alike.__getitem__) == name


def test_unseen_scenes_have_a_pair_that_training_never_has():
    pairs = {(GLYPHS[glyph].en, COLORS[color].en) for glyph, color in held_out_pairs(14)}
    assert len(pairs) == 14 and {name for name, _ in pairs} == {glyph.en for glyph in GLYPHS}
    assert {color for _, color in pairs} == {color.en for color in COLORS}
    assert len(set(held_out_pairs(56))) == 56
    for part, expected in (("training", 0), ("validation", 0), ("test", 0), ("unseen", 1)):
        source = image_source(GlyphScenes(), 0, part)
        for number in range(12):
            found = [(name, color) in pairs for color, name in said(source[number])[0]]
            assert sum(found) == expected
    assert len(image_source(GlyphScenes(test=31), 0, "unseen")) == 31
    assert len(image_source(GlyphScenes(validation=29), 0, "validation")) == 29
    with pytest.raises(ConfigError, match="held_out=0"):
        image_source(GlyphScenes(held_out=0), 0, "unseen")


def test_every_colour_and_every_object_is_seen_in_training():
    objects_of, chance = GlyphObjects(56, "en"), Chance("seen")
    seen = {"".join(one.phrase) for _ in range(250) for one in objects_of.choose(3, chance, unseen=False)}
    assert len(seen) == 112 - 56
    assert {one.split(" ")[0] for one in seen} == {color.en for color in COLORS}
    assert {one.split(" ")[1] for one in seen} == {glyph.en for glyph in GLYPHS}


def test_captions_in_three_languages_by_hand():
    heart, star, purple, green = GLYPHS[0], GLYPHS[2], COLORS[5], COLORS[3]
    for language, expected, names in (
        ("en", "purple heart above green star and left of purple star", ["heart", "star", "star"]),
        ("fr", "un cœur violet au-dessus d’une étoile verte et à gauche d’une étoile violette",
         ["cœur", "étoile", "étoile"]),
        ("zh", "紫色爱心在绿色星星上方，在紫色星星左边", ["爱心", "星星", "星星"]),
    ):  # fmt: skip
        objects = [phrase(heart, purple, language), phrase(star, green, language), phrase(star, purple, language)]
        text, spans = caption(objects, ["above", "left"], language)
        assert text == expected and [text[start:end] for start, end in spans] == names
    assert caption([Phrase("", "chat"), Phrase("", "hibou")], ["below"], "fr")[0] == "chat en dessous de hibou"
    assert caption([Phrase("", "chat"), Phrase("", "Hélicoptère")], ["right"], "fr")[0] == (
        "chat à droite d’Hélicoptère"
    )
    assert caption([Phrase("", "狗"), Phrase("", "猫")], ["below"], "zh")[0] == "狗在猫下方"


def test_places_that_do_not_fit_are_reported():
    crowded = [place_objects([(9, 9), (9, 9)], 19, Chance("crowded", number), from_left=False) for number in range(200)]
    assert all(one is None for one in crowded)  # of 19 pixels 1 is left between them
    fitting = [place_objects([(9, 9), (9, 9)], 20, Chance("fitting", number), from_left=True) for number in range(200)]
    assert any(fitting)


def test_settings_that_make_no_sense():
    with pytest.raises(ValidationError, match="fewest"):
        GlyphScenes(fewest=3, most=2)
    with pytest.raises(ValidationError, match="size"):
        GlyphScenes(size=8)
    largest = image_source(GlyphScenes(size=97, fewest=3), 0, "test")[5]
    assert largest.pixels.shape == (97, 97, 3) and len(largest.named) == 3
