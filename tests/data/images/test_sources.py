"""Images of others: a folder with its captions, and a sheet of emoji with its names."""

import json
import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from PIL import Image

from regard.data.images.emoji import EmojiObjects, read_emoji
from regard.data.images.settings import EVERYDAY, CaptionedFolder, EmojiScenes
from regard.data.images.sources import image_source
from regard.errors import ConfigError, DataError
from tests.shared import SHARED, needs_shared


def dataset(folder, images):
    for number, entry in enumerate(images):
        file = folder / "images" / entry.get("filepath", "") / entry["filename"]
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (7, 7), (number, 0, 0)).save(file)
    (folder / "dataset.json").write_text(json.dumps({"images": images, "dataset": "made"}), "utf-8")
    return CaptionedFolder(folder=folder / "images", captions=folder / "dataset.json", size=7 + 4)


IMAGES = [
    {"filename": "a.png", "split": "train", "sentences": [{"raw": "A  dog ."}, {"tokens": ["a", "brown", "dog"]}]},
    {"filename": "b.png", "split": "val", "sentences": [{"raw": "一只猫", "tokens": ["no"]}], "imgid": 5},
    {"filename": "c.png", "split": "restval", "sentences": [{"raw": "two"}], "filepath": "train2014"},
    {"filename": "d é.png", "split": "test", "sentences": [{"raw": "three"}]},
]


def test_a_folder_in_parts(tmp_path):
    settings = dataset(tmp_path, IMAGES)
    training = image_source(settings, 0, "training")
    assert [training[number].captions for number in range(len(training))] == [("A dog .", "a brown dog"), ("two",)]
    assert [training[number].pixels[5, 5].tolist() for number in (0, 1)] == [[0, 0, 0], [2, 0, 0]]
    assert training[0].pixels.shape == (11, 11, 3) and training[0].named == ()
    assert training[1].place == str(tmp_path / "images" / "train2014" / "c.png")
    held_out = image_source(settings, 0, "validation"), image_source(settings, 9, "test")
    assert [one[0].captions for one in held_out] == [("一只猫",), ("three",)]
    with pytest.raises(IndexError, match="2 of 2"):
        training[2]
    with pytest.raises(ConfigError, match="synthetic scenes"):
        image_source(settings, 0, "unseen")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"filename": "a.png", "split": "training", "sentences": [{"raw": "x"}]}, r"image 1 \(a.png\).*'train'\?"),
        (
            {"filename": "a.png", "split": "val", "sentences": [{"raw": "x"}]},
            "none of its 1 images has the split",
        ),
        ({"filename": "a.png", "sentences": [{"raw": "x"}]}, 'image 1: expected "split"'),
        ({"filename": "a.png", "split": "train", "sentences": []}, r'\(a.png\): expected "sentences"'),
        ({"filename": "a.png", "split": "train", "sentences": [{"raw": "x"}, {"raw": " "}]}, "sentence 2"),
        ({"filename": "a.png", "split": "train", "sentences": [{"tokens": "x"}]}, "sentence 1"),
        ({"filename": "a.png", "split": "train", "sentences": ["x"]}, "sentence 1"),
        ({"filename": "a.png", "filepath": 3, "split": "train", "sentences": [{"raw": "x"}]}, '"filepath", a text'),
        (
            {"filename": "a.png", "filepath": "../..", "split": "train", "sentences": [{"raw": "x"}]},
            r"image 1: '\.\./\.\./a\.png' leads out of the folder",
        ),
        ({"filename": ["a"] * 99, "split": "val"}, r"""expected "filename", a text, but \[('a', ){11}'a'…"""),
        ({"filename": "b" * 99, "split": "c" * 99}, r"\(b{59}…\): no split is named 'c{59}…'\. Known"),
        ({"filename": "/a.png", "split": "train", "sentences": [{"raw": "x"}]}, "'/a.png' leads out of the folder"),
    ],
)
def test_what_a_file_of_captions_must_say(tmp_path, entry, message):
    settings = dataset(tmp_path, [IMAGES[0]])
    settings.captions.write_text(json.dumps({"images": [entry]}), "utf-8")
    with pytest.raises(DataError, match=message) as told:
        image_source(settings, 0, "training")
    assert str(settings.captions) in str(told.value)


def test_files_of_a_folder_that_are_missing_or_no_json(tmp_path):
    settings = dataset(tmp_path, IMAGES)
    (tmp_path / "images" / "a.png").unlink()
    with pytest.raises(DataError, match=r"a\.png: this image is not there, but .*dataset\.json names it"):
        image_source(settings, 0, "training")
    (tmp_path / "images" / "d é.png").write_text("no image")
    with pytest.raises(DataError, match=r"d é\.png: this is no image"):
        image_source(settings, 0, "test")[0]
    for content in (b"{", b"\xff\xfe", b"[" * 100_000):
        settings.captions.write_bytes(content)
        with pytest.raises(DataError, match=r"dataset\.json: this is no JSON"):
            image_source(settings, 0, "test")
    for content in ("{}", "3", '{"images": [1]}'):
        settings.captions.write_text(content)
        with pytest.raises(DataError, match=r'dataset\.json: expected a list of .* named "images"'):
            image_source(settings, 0, "test")
    settings.captions.unlink()
    with pytest.raises(DataError, match=r"dataset\.json: this file cannot be opened"):
        image_source(settings, 0, "test")


NAMES = {"1F436": "dog face", "1F431": "cat face", "2602-FE0F": "umbrella", "1F511": "key", "1F41F": "fish"}


@pytest.fixture
def sheet(tmp_path):
    """Five emoji in cells of 16 pixels with a border of 1: squares of different colours, each 10 by 6."""
    drawn = np.zeros((3 * 18, 3 * 18, 4), np.uint8)
    metadata = []
    for number, code in enumerate(NAMES):
        column, row = number % 3, number // 3
        drawn[row * 18 + 4 : row * 18 + 10, column * 18 + 3 : column * 18 + 13] = (40 * number, 0, 99, 255)
        short_name = NAMES[code].split(" ")[0]
        metadata.append(
            {"short_name": short_name, "unified": code, "sheet_x": column, "sheet_y": row, "sort_order": 9 - number,
             "category": "Objects", "subcategory": "animal" if number in (0, 1, 4) else "thing"}
        )  # fmt: skip
    metadata.append({**metadata[0], "short_name": "flag-fr", "category": "Flags", "subcategory": "country-flag"})
    Image.fromarray(drawn).save(tmp_path / "sheet.png")
    (tmp_path / "emoji.json").write_text(json.dumps(metadata))
    characters = {"".join(chr(int(one, 16)) for one in code.split("-") if one != "FE0F"): code for code in NAMES}
    told = {key: {"default": ["x"], "tts": [NAMES[code]]} for key, code in characters.items()}
    annotations = {"identity": {"language": "en"}, "annotations": told}
    (tmp_path / "en.json").write_text(json.dumps({"annotations": annotations}))
    return EmojiScenes(
        sheet=tmp_path / "sheet.png", metadata=tmp_path / "emoji.json", names=tmp_path / "en.json",
        cell=16, held_out=2, emoji=("animal", "thing", "dog"),
    )  # fmt: skip


def test_emoji_have_the_cell_and_the_name_of_their_own(sheet):
    emoji = read_emoji(sheet)
    assert [one.name for one in emoji] == list(NAMES.values())[::-1]  # in the order of the metadata's sort_order
    for number, one in enumerate(reversed(emoji)):
        pixels = np.asarray(one.drawing)
        assert pixels.shape == (16, 16, 4) and pixels[5, 5].tolist() == [40 * number, 0, 99, 255]
        assert pixels[..., 3].any(0).sum() == 10 and pixels[..., 3].any(1).sum() == 6


def test_scenes_of_emoji_show_what_they_name(sheet):
    colors = {name: np.array([40 * number, 0, 99]) for number, name in enumerate(NAMES.values())}
    objects_of = EmojiObjects(sheet)
    apart = [{objects_of.emoji[one].name, objects_of.emoji[other].name} for one, other in objects_of.held_out]
    assert len(apart) == 2
    for part in ("training", "unseen"):
        source = image_source(sheet, 0, part)
        for number in range(15):
            scene = source[number]
            names = [scene.captions[0][one.start : one.end] for one in scene.named]
            assert re.split(" (?:and )?(?:above|below|left of|right of) ", scene.captions[0]) == names
            for name, (_, _, (left, top, right, bottom)) in zip(names, scene.named, strict=True):
                assert (scene.pixels[int(top) : int(bottom), int(left) : int(right)] == colors[name]).all()
                assert abs((right - left) / (bottom - top) - 10 / 6) < 0.15
            middles = [(left + right) / 2 for _, _, (left, _, right, _) in scene.named]
            assert all(after - before >= 0.05 * 64 for before, after in pairwise(middles))  # named from left to right
            together = [set(pair) in apart for pair in combinations(names, 2)]
            assert any(together) if part == "unseen" else not any(together)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"emoji": ("dgo", "thing", "cat", "dog")}, ConfigError, "'dgo'; it has dog"),
        ({"emoji": ("country-flag", "thing", "cat", "dog")}, ConfigError, "no emoji or subcategory 'country-flag'"),
        ({"emoji": ("dog", "cat", "fish", "dog")}, ConfigError, "3 emoji"),
        ({"held_out": 6}, ConfigError, "held_out=6 of the 10 pairs"),
        ({"language": "fr"}, DataError, "in 'en', but captions were asked for in 'fr'"),
        ({"cell": 64}, DataError, "lies outside of its 54 × 54 pixels"),
        ({"border": 9}, DataError, "lies outside|is empty"),
        ({"sheet": "gone.png"}, DataError, "gone.png: this sheet cannot be opened"),
    ],
)
def test_emoji_that_do_not_fit_together(sheet, changed, error, message):
    with pytest.raises(error, match=message):
        image_source(EmojiScenes(**(dict(sheet) | changed)), 0, "training")


def test_emoji_files_that_say_something_else(sheet, tmp_path):
    annotations = json.loads(sheet.names.read_text())
    listed = annotations["annotations"]["annotations"]
    listed["🐱"]["tts"] = ["dog face"]
    sheet.names.write_text(json.dumps(annotations))
    with pytest.raises(DataError, match="'cat' and 'dog' are both named 'dog face'"):
        image_source(sheet, 0, "training")
    del listed["🐱"]
    sheet.names.write_text(json.dumps(annotations))
    with pytest.raises(DataError, match="no name for the emoji 'cat'"):
        image_source(sheet, 0, "training")
    sheet.metadata.write_text('[{"short_name": "dog"}]')
    with pytest.raises(DataError, match=r"emoji\.json, entry 1: expected short_name"):
        image_source(sheet, 0, "training")
    sheet.names.write_text('{"annotations": 3}')
    with pytest.raises(DataError, match="no annotations.json of CLDR"):
        image_source(sheet, 0, "training")


@needs_shared
def test_the_everyday_emoji_of_a_real_sheet():
    folder = SHARED / "data" / "emoji"
    named = {}
    for language in ("fr", "zh"):
        settings = EmojiScenes(
            sheet=folder / "twitter-sheet-128colors-64px.png",
            metadata=folder / "emoji.json",
            names=folder / f"cldr-annotations.{language}.json",
            language=language,
        )
        emoji = read_emoji(settings)
        assert {one.short_name for one in emoji} == set(EVERYDAY) and len(EVERYDAY) == 40
        assert all(one.drawing.size == (64, 64) for one in emoji)
        named[language] = {one.short_name: one.name for one in emoji}
    assert [named[language]["birthday"] for language in named] == ["gâteau d’anniversaire", "生日蛋糕"]
    assert named["zh"]["dog"] == "狗脸" and named["fr"]["umbrella"] == "parapluie ouvert"
