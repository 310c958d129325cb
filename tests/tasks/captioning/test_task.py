"""The task of captioning: its measures by hand, a tiny run that resumes, hard attention begun from a soft run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from regard.data.images.json_file import read_json
from regard.data.images.sources import image_source
from regard.errors import ConfigError, DataError, RunError
from regard.tasks.captioning.evaluation import Judged, PointingGame, centred, judge, overlapped
from regard.tasks.captioning.predictor import END_WORD, CaptioningPredictor
from regard.tasks.captioning.settings import CaptioningSettings
from regard.tasks.captioning.task import TASK
from regard.tasks.captioning.view import captions_view
from regard.tasks.core.config import check
from regard.tasks.core.fit import fit
from regard.views.view import Overlay

TINY: dict[str, Any] = {
    "task": "captioning",
    "threads": 1,
    "data": {"kind": "scenes", "size": 32, "scenes": 12, "validation": 5, "test": 7},
    "captions": {"batch": 5, "longest": 13},
    "model": {
        "encoder": {"kind": "convolutions", "channels": [3, 5], "strides": [4, 2]},
        "annotation_dim": 7,
        "attention_dim": 3,
        "embedding_dim": 5,
        "state_dim": 11,
    },
    "learning": {"words": 1.0, "grey": 0.4, "evenly": 0.1},
    "training": {"steps": 4, "warmup_steps": 1, "decay": "none", "validate_every": 2},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "scenes"
    fit(check(CaptioningSettings, TINY, also=TASK.faults), folder, progress="silent")
    return folder


@pytest.fixture(scope="module")
def captioner(run: Path) -> CaptioningPredictor:
    return CaptioningPredictor.load(run)


def test_cells_over_a_box_by_hand() -> None:
    """An image of 8 pixels, 4 × 2 cells of 2 × 4 pixels; a box from (3, 1) to (5, 4): left, top, right, bottom."""
    over = overlapped((4, 2), (3.0, 1.0, 5.0, 4.0), 8)
    assert over.tolist() == [[True, True], [True, True], [False, False], [False, False]]
    middle = centred((4, 2), (2.0, 3.0, 5.0, 7.0), 8)  # centres: rows 1, 3, 5, 7 and columns 2, 6
    assert middle.tolist() == [[False, False], [True, False], [True, False], [False, False]]
    assert not overlapped((4, 2), (0.0, 2.0, 4.0, 4.0), 8)[:, 1].any()  # a shared edge is no area


def test_hits_are_counted_beside_those_of_a_random_cell() -> None:
    looks = PointingGame()
    one, other = (0.0, 0.0, 4.0, 4.0), (4.0, 0.0, 8.0, 2.0)
    weights = np.zeros((4, 4))
    weights[1, 1] = 1
    looks.add(weights, [one, other], 0, 8)  # looked, and its centre (3, 3) is inside
    looks.add(weights, [one, other], 1, 8)  # elsewhere: in the first one's box
    weights[1, 1], weights[3, 3] = 0, 1
    looks.add(weights, [one, other], 1, 8)  # on the ground
    assert looks.measures() == {
        "looked": pytest.approx(1 / 3),
        "looked_elsewhere": pytest.approx(1 / 3),
        "centre": pytest.approx(1 / 3),
    }
    chance = {"looked": (4 + 2 + 2) / 48, "looked_elsewhere": (2 + 4 + 4) / 48, "centre": (4 + 2 + 2) / 48}
    assert looks.chances() == pytest.approx(chance)


def test_captions_are_exact_if_they_are_one_of_the_right_ones() -> None:
    judged = Judged(["a b c d e", "x"], [("f", "a b c d e"), ("y",)], None)
    assert judged.exact == 0.5
    assert Judged(["a b c d e"], [("a b c d e", "f g h i j k")], None).bleu().value == pytest.approx(100)


def test_a_stopped_run_continues_to_the_same_weights(run: Path, tmp_path: Path) -> None:
    short = {**TINY, "training": {**TINY["training"], "steps": 2}}
    fit(check(CaptioningSettings, short), tmp_path / "a", progress="silent")
    fit(check(CaptioningSettings, TINY), tmp_path / "a", resume=True, progress="silent")
    one, two = (sorted((path / "checkpoints").iterdir())[-1] / "model.safetensors" for path in (tmp_path / "a", run))
    assert one.parent.name == "step-00000004" and one.read_bytes() == two.read_bytes()


def test_an_evaluation_reports_pairs_never_seen_and_chance(captioner: CaptioningPredictor, run: Path) -> None:
    evaluation = TASK.evaluate(captioner, run, {"beam": 2})
    assert [row["pairs"] for row in evaluation.lengths] == ["seen in training", "never seen", "a cell at random"]
    assert set(evaluation.measures) == {"exact", "exact_unseen", "looked", "looked_elsewhere", "centre"}
    assert evaluation.items == 7 and 0 < evaluation.lengths[2]["looked"] < 0.3
    seen = judge(captioner, captioner.images("test", 0))
    assert seen.right[0] == image_source(captioner.settings.data, 0, "test")[0].captions


def test_a_caption_is_the_same_alone_and_among_others(captioner: CaptioningPredictor) -> None:
    shown = [captioner.images("test", 0)[number].pixels for number in range(3)]
    together = captioner.caption(shown, beam=3)
    for image, one in zip(shown, together, strict=True):
        [alone] = captioner.caption([image], beam=3)
        assert alone.text == one.text and alone.probability == pytest.approx(one.probability, rel=1e-4)
        assert one.weights.shape == (len(one.words), 4, 4)
        np.testing.assert_allclose(one.weights.sum((1, 2)), 1, rtol=1e-4)
        assert captioner.tokenizer.decode([captioner.tokenizer.encode(one.text).ids[0]]) == one.words[0]


def test_a_view_lays_the_weights_of_each_word_over_the_image(captioner: CaptioningPredictor, tmp_path: Path) -> None:
    Image.fromarray(captioner.images("test", 0)[1].pixels).save(tmp_path / "a.png")
    view = TASK.view(captioner, str(tmp_path / "a.png"))
    words = captioner.caption([captioner.image_of(tmp_path / "a.png")])[0].words
    assert [one.title for one in view.matrices] == ["end" if word == END_WORD else word for word in words]
    assert all(isinstance(one, Overlay) and one.values.shape == (4, 4) for one in view.matrices)
    made = TASK.view(captioner, None, seed=3, language="zh")
    right = captioner.images("test", 3)[0]
    assert f"正确的描述是：{right.captions[0]}" in made.notes
    assert made.matrices[0].boxes == tuple(one.box for one in right.named)
    (tmp_path / "b.png").write_text("no picture")
    seen = list(captioner.stream([tmp_path / "a.png", tmp_path / "b.png"]))
    assert seen[1].caption is None and isinstance(seen[1].fault, DataError) and "b.png" in str(seen[1].fault)
    assert len(captions_view(seen).matrices) == len(words)
    with pytest.raises(ConfigError, match="leave it out beside an image"):
        TASK.view(captioner, str(tmp_path / "a.png"), seed=1)


def test_hard_attention_begins_with_a_soft_run(run: Path, tmp_path: Path) -> None:
    hard = {**TINY, "model": {**TINY["model"], "look": "sample"}, "start_from": str(run)}
    settings = check(CaptioningSettings, hard)
    prepared = TASK.data(settings, None, lambda line: None)
    begun, soft = TASK.model(settings, prepared), CaptioningPredictor.load(run).model
    for name, weight in soft.state_dict().items():
        assert (begun.state_dict()[name] == weight).all(), name
    fit(settings, tmp_path / "hard", progress="silent")
    shutil.move(run, tmp_path / "elsewhere")  # a run stands by itself: what it began from may be gone
    try:
        one = CaptioningPredictor.load(tmp_path / "hard")
        looks = one.caption([one.images("test", 0)[0].pixels])[0].weights
        assert set(np.unique(looks)) == {0.0, 1.0}
        assert float(one.model.baseline) < 0  # it has moved, and is kept
        with pytest.raises(RunError, match="no such folder"):
            TASK.model(settings, prepared)
    finally:
        shutil.move(tmp_path / "elsewhere", run)
    other = check(CaptioningSettings, {**hard, "data": {**TINY["data"], "language": "fr"}})
    with pytest.raises(ConfigError, match="was trained on other words"):
        TASK.model(other, TASK.data(other, None, lambda line: None))
    wide = check(CaptioningSettings, {**hard, "model": {**hard["model"], "state_dim": 13}})
    with pytest.raises(RunError, match="not of this model"):
        TASK.model(wide, prepared)
    unnamed = check(CaptioningSettings, {**hard, "start_from": "${data}"})
    with pytest.raises(ConfigError, match="--data RUN"):
        TASK.model(unnamed, prepared)


def test_a_backbone_has_the_weights_of_its_file_and_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def network(name: str) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 4, stride=8))

    monkeypatch.setattr("regard.models.captioning.backbone._network", network)
    weights = network("").state_dict()
    save_file(weights, tmp_path / "net.safetensors")
    encoder = {"kind": "backbone", "name": "torchvision:net", "weights": str(tmp_path / "net.safetensors")}
    settings = check(CaptioningSettings, {**TINY, "model": {**TINY["model"], "encoder": encoder}})
    begun = TASK.model(settings, TASK.data(settings, None, lambda line: None))
    assert torch.equal(begun.encoder.network[0].weight, weights["0.weight"])
    fit(settings, tmp_path / "run", progress="silent")
    (tmp_path / "net.safetensors").unlink()  # a run that is trained holds all of its weights
    kept = CaptioningPredictor.load(tmp_path / "run").model.encoder.network[0]
    assert torch.equal(kept.weight, weights["0.weight"]) and torch.equal(kept.bias, weights["0.bias"])


def folder_of(tmp_path: Path) -> dict[str, Any]:
    """A folder of four images with features beside them, and settings of a run of it."""
    rng = np.random.default_rng(5)
    (tmp_path / "features").mkdir()
    images = []
    for number, split in enumerate(("train", "train", "val", "test")):
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
        np.save(tmp_path / "features" / f"{number}.npy", rng.normal(size=(2, 3, 5)).astype(np.float32))
        sentences = [{"raw": f"a dog {number}"}, {"raw": "a very small picture"}]
        images.append({"filename": f"{number}.png", "split": split, "sentences": sentences})
    (tmp_path / "dataset.json").write_text(json.dumps({"images": images}), encoding="utf-8")
    data = {"kind": "folder", "folder": str(tmp_path), "captions": str(tmp_path / "dataset.json"), "size": 16}
    return {**TINY, "data": data, "learning": {}, "training": {**TINY["training"], "steps": 2}}


def test_a_folder_of_pictures_with_several_captions_b44(tmp_path: Path) -> None:
    """B44: an image is the same in training and in use; here from a folder with a file of captions to BLEU."""
    settings = check(CaptioningSettings, folder_of(tmp_path), also=TASK.faults)
    fit(settings, tmp_path / "run", progress="silent")
    captioner = CaptioningPredictor.load(tmp_path / "run")
    assert {captioner.tokenizer.token(number) for number in range(4, len(captioner.tokenizer))} == {
        *["a", "dog", "0", "1", "very", "small", "picture"]
    }
    evaluation = TASK.evaluate(captioner, tmp_path / "run", {})
    assert set(evaluation.measures) == {"exact", "bleu"} and evaluation.items == 1
    assert "nrefs:2" in evaluation.signatures["bleu"]
    shown = captioner.images("test", 0)[0]
    assert (captioner.image_of(tmp_path / "3.png") == shown.pixels).all()


def with_features(tmp_path: Path) -> dict[str, Any]:
    tree = folder_of(tmp_path)
    captions = {**tree["captions"], "features": str(tmp_path / "features")}
    return {**tree, "captions": captions, "model": {**tree["model"], "encoder": {"kind": "features", "width": 5}}}


@pytest.mark.parametrize("tree_of", [folder_of, with_features])
def test_the_file_of_captions_is_read_once_for_each_part(
    tree_of: Callable[[Path], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its words were read out of a file that was parsed twice more; one of a public split holds half a million."""
    read: list[Path] = []

    def counted(path: Path) -> Any:
        read.append(path)
        return read_json(path)

    monkeypatch.setattr("regard.data.images.folder.read_json", counted)
    tree = tree_of(tmp_path)
    said: list[str] = []
    prepared = TASK.data(
        check(CaptioningSettings, {**tree, "captions": {**tree["captions"], "longest": 3}}), None, said.append
    )
    assert len(read) == 2 and len(prepared.parts) == 4 + 7
    assert said == ["2 captions have more than 3 words; the rest is not learned (captions.longest)"]


def test_features_take_the_place_of_pictures(tmp_path: Path) -> None:
    tree = with_features(tmp_path)
    fit(check(CaptioningSettings, tree, also=TASK.faults), tmp_path / "run", progress="silent")
    captioner = CaptioningPredictor.load(tmp_path / "run")
    [one] = captioner.stream([tmp_path / "features" / "3.npy"])
    assert one.caption is not None and one.caption.weights.shape[1:] == (2, 3)
    view = captions_view([one])
    assert not any(isinstance(matrix, Overlay) for matrix in view.matrices) and view.matrices[0].values.shape == (2, 3)


def test_settings_that_do_not_go_together_are_reported_at_once() -> None:
    wrong = {
        **TINY,
        "model": {"encoder": {"kind": "features", "width": 5}},
        "training": {"smoothing": 0.1, "monitor": "bleu"},
    }
    with pytest.raises(ConfigError) as error:
        check(CaptioningSettings, wrong, also=TASK.faults)
    for part in ("smoothing", "learning.grey", "captions.features", "no measure is named 'bleu'"):
        assert part in str(error.value)


def test_several_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="captioning trains in one process"):
        TASK.data(check(CaptioningSettings, TINY), None, print)
