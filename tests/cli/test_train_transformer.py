"""A Transformer by the command line: trained, translating, shown, evaluated, averaged, joined with a recurrent run."""

import json

import pytest

from tests.cli.conftest import TINY

RECURRENT = ("model.cell", "model.embedding_dim", "model.encoder_dim", "model.decoder_dim", "model.attention_dim")
SIZES = [
    "model.kind=transformer",
    "model.dim=24",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=2",
    "model.feed_forward_dim=24",
    "model.initial=fan_in",
    "model.word_dropout=0.1",
    "training.steps=6",
    "training.save_every=3",
]


@pytest.fixture(scope="module")
def transformer(regard, files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformer") / "run"
    settings = [one for one in TINY if not one.startswith(RECURRENT)]
    regard("train", "translation", "--source", files / "train.en", "--target", files / "train.fr", "--run", folder,
           "--seed", 5, "--threads", 1, "--quiet", *settings, *SIZES)  # fmt: skip
    return folder


def test_it_translates_line_by_line_whatever_the_batch(regard, transformer, files):
    lines = "".join((files / "test.en").read_text(encoding="utf-8").splitlines(keepends=True)[:3])
    whole = regard("translate", transformer, "-", "--beam", 2, stdin=lines).stdout
    assert whole.count("\n") == 3
    assert regard("translate", transformer, "-", "--beam", 2, "--batch", 1, stdin=lines).stdout == whole


def test_every_head_and_every_step_is_shown(regard, transformer, tmp_path):
    shown = regard("show", transformer, "at noon", "--target", "à midi", "--heads").stdout
    assert "layer.head" in shown and "not an effect" in shown
    regard("show", transformer, "at noon", "--target", "à midi", "--heads", "--out", tmp_path / "heads.json")
    view = json.loads((tmp_path / "heads.json").read_text())
    assert view["kind"] == "heads" and len(view["matrices"]) == 2 * (1 + 2 + 2) and view["across"] == 2
    regard("show", transformer, "at noon", "--steps", "--out", tmp_path / "steps.html")
    assert "most probable" in (tmp_path / "steps.html").read_text(encoding="utf-8")
    assert "give only one" in regard("show", transformer, "at noon", "--steps", "--heads", code=2).stderr
    assert "attended to" in regard("show", transformer, "at noon").stdout


def test_the_recurrent_run_has_steps_and_says_that_it_has_no_heads(regard, run):
    assert "most probable" in regard("show", run, "at noon", "--steps").stdout
    assert "only one Transformer has layers of heads" in regard("show", run, "at noon", "--heads", code=1).stderr


def test_all_other_commands_take_it_as_it_is(regard, transformer, run, files, tmp_path):
    output = regard("evaluate", transformer, "--source", files / "test.en", "--target", files / "test.fr").stdout
    assert "bleu" in output and "entropy" in output
    regard("average", transformer, "--out", tmp_path / "mean", "--last", 2)
    assert regard("translate", tmp_path / "mean", "at noon").stdout.count("\n") == 1
    assert regard("translate", transformer, "at noon", "--with", run).stdout.count("\n") == 1
    aligned = regard("align", transformer, files / "test.en", files / "test.fr").stdout
    assert aligned.count("\n") == 20
    assert "recurrent" in regard("show", transformer, "at noon", "--posterior", code=1).stderr
