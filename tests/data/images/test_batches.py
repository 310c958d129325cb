"""Batches of captioned images, and features in the place of images."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from regard.data.images.batches import IGNORED, CaptionBatch, CaptionBatches, ObjectWord, object_words
from regard.data.images.captioned import CaptionedImage, NamedObject
from regard.data.images.features import ImageFeatures, load_features
from regard.data.tokenizers.factory import train_tokenizer
from regard.errors import DataError


class Listed:
    """Images of a list; `place` is a file's name."""

    def __init__(self, *captions: tuple[str, ...]) -> None:
        self.captions = captions

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, number: int) -> CaptionedImage:
        return CaptionedImage(np.full((5, 5, 3), number, np.uint8), self.captions[number], (), f"images/{number}.png")


def batches(images: Listed, *, endless: bool = False, longest: int = 7, batch: int = 2) -> CaptionBatches:
    tokenizer = train_tokenizer("words", [text for some in images.captions for text in some], 100)
    return CaptionBatches(images, tokenizer, batch, longest, endless=endless, seed=3)


def test_a_batch_is_read_with_a_begin_and_said_with_an_end() -> None:
    batch = CaptionBatch.of([np.zeros((5, 5, 3), np.uint8)] * 2, [[7, 8, 9], [5]])
    assert batch.words_in.tolist() == [[2, 7, 8, 9], [2, 5, 0, 0]]
    assert batch.words_out.tolist() == [[7, 8, 9, 3], [5, 3, IGNORED, IGNORED]]
    assert len(batch) == 2 and batch.images.shape == (2, 5, 5, 3)


def test_shorter_and_longer_captions_are_stepped_through_apart(monkeypatch) -> None:
    monkeypatch.setattr("regard.data.images.batches._TOGETHER", 2)
    words: list[list[int]] = [[4] * 6, [4], [4] * 3, [], [4] * 2]
    batch = CaptionBatch.of([np.zeros((5, 5, 3), np.uint8)] * 5, words)
    assert [(rows.tolist(), steps) for rows, steps in batch.by_length()] == [([3, 1, 4], 3), ([2, 0], 7)]
    alone = CaptionBatch.of([np.zeros((5, 5, 3), np.uint8)], [[4]])
    assert [(rows.tolist(), steps) for rows, steps in alone.by_length()] == [([0], 2)]


def test_each_epoch_shows_every_picture_once_with_the_next_of_its_captions() -> None:
    """B44 asks for one way to read; here that no caption is missed, and that a plan depends on its epoch alone."""
    given = batches(Listed(("a", "b", "c"), ("d",), ("e", "f")))
    seen = []
    for epoch in range(3):
        plan = given.plan(epoch)
        assert plan == given.plan(epoch) and [len(one) for one in plan] == [2, 1]
        shown = {}
        for indices in plan:
            batch = given.load(indices)
            for pixels, words in zip(batch.images, batch.words_out, strict=True):
                shown[int(pixels[0, 0, 0])] = given.tokenizer.decode(words[words > 3].tolist())
        seen.append([shown[number] for number in range(3)])
    assert seen == [["a", "d", "e"], ["b", "d", "f"], ["c", "d", "e"]]


def test_long_captions_are_cut_and_an_endless_source_continues_counting() -> None:
    given = batches(Listed(("a b c d",), ("e",)), endless=True, longest=2)
    assert given.plan(0) == [[0, 1]] and given.plan(3) == [[6, 7]]
    assert (given.load([0]).words_out > 3).sum() == 2


def test_a_caption_that_is_cut_teaches_no_end_there() -> None:
    """It was learned that captions end after `longest` words."""
    given = batches(Listed(("a b c d",), ("e",), ("f g",)), endless=True, longest=2, batch=3)
    a, b, e, f, g = (given.tokenizer.encode(text).ids[0] for text in "abefg")
    batch = given.load([0, 1, 2])
    assert batch.words_in.tolist() == [[2, a, b], [2, e, 0], [2, f, g]]
    assert batch.words_out.tolist() == [[a, b, IGNORED], [e, 3, IGNORED], [f, g, 3]]


def test_words_of_names_are_those_that_begin_within_them() -> None:
    box = (0.0, 0.0, 3.0, 3.0)
    english = CaptionedImage(
        np.zeros((5, 5, 3), np.uint8),
        ("red fire engine above cat",),
        (NamedObject(4, 15, box), NamedObject(22, 25, box)),
        "1",
    )
    assert object_words(english) == [ObjectWord(1, 0), ObjectWord(2, 0), ObjectWord(4, 1)]
    chinese = CaptionedImage(
        np.zeros((5, 5, 3), np.uint8), ("狗脸在雨伞上方",), (NamedObject(0, 2, box), NamedObject(3, 5, box)), "2"
    )
    assert [(one.step, one.object) for one in object_words(chinese)] == [(0, 0), (1, 0), (3, 1), (4, 1)]


def test_features_stand_in_the_place_of_pixels(tmp_path: Path) -> None:
    grid = np.random.default_rng(5).normal(size=(2, 3, 7))
    np.save(tmp_path / "0.npy", grid)
    save_file({"features": grid.astype(np.float16)}, tmp_path / "1.safetensors")
    source = ImageFeatures(Listed(("a",), ("b",), ("c",)), tmp_path, 7)
    assert source[0].pixels.dtype == np.float32 and np.allclose(source[0].pixels, grid)
    assert np.allclose(source[1].pixels, grid, atol=2e-3) and source[1].captions == ("b",)
    with pytest.raises(DataError, match=r"images/2\.png has no features: .*2\.npy or .*2\.safetensors is expected"):
        source[2]


def test_pictures_of_one_name_do_not_share_features(tmp_path: Path) -> None:
    class Twins(Listed):
        def __getitem__(self, number: int) -> CaptionedImage:
            return super().__getitem__(number)._replace(place=f"{number}/cat.png")

    np.save(tmp_path / "cat.npy", np.zeros((2, 3, 7)))
    source = ImageFeatures(Twins(("a",), ("b",)), tmp_path, 7)
    assert source[0].place == source[0].place == "0/cat.png"  # the same image, read again
    with pytest.raises(DataError, match=r"1/cat\.png and 0/cat\.png would share the features named cat; rename one"):
        source[1]


def test_what_is_no_feature_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    np.save(tmp_path / "wide.npy", rng.normal(size=(2, 3, 5)))
    np.save(tmp_path / "flat.npy", rng.normal(size=(2, 7)))
    np.save(tmp_path / "whole.npy", np.zeros((2, 3, 7), np.int64))
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "nan.npy", np.full((2, 3, 7), np.nan))
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "text.safetensors").write_text("no tensors")
    save_file({"a": np.zeros((2, 3, 7)), "b": np.zeros((2, 3, 7))}, tmp_path / "two.safetensors")
    names = ["wide.npy", "flat.npy", "whole.npy", "pickled.npy", "nan.npy", "text.npy", "text.safetensors", "none.npy"]
    for name in [*names, "none.safetensors", "two.safetensors"]:
        with pytest.raises(DataError, match=name):
            load_features(tmp_path / name, 7)


def test_features_of_several_sizes_are_no_batch() -> None:
    with pytest.raises(DataError, match="features must all be of one shape"):
        CaptionBatch.of([np.zeros((2, 3, 7)), np.zeros((3, 2, 7))], [[4], [5]])
