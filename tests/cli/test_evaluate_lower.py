"""A translator of lower case beside targets with capitals: what the measures count is said."""

import json

import pytest

TINY = ["data.tokenizer=words", "data.lower=true", "data.held_out=7", "model.cell=gru", "model.embedding_dim=5",
        "model.encoder_dim=5", "model.decoder_dim=5", "model.attention_dim=5", "training.steps=2",
        "search.max_length=3"]  # fmt: skip
TOLD = "the model writes lower case (data.lower), and {} of 20 targets have capitals, which bleu, chrf and exact count"


@pytest.fixture(scope="module")
def lower(regard, files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lower") / "run"
    regard("train", "translation", "--source", files / "train.fr", "--target", files / "train.en", "--run", folder,
           "--seed", 5, "--threads", 1, "--quiet", *TINY)  # fmt: skip
    return folder


def test_capitals_that_are_never_written_are_reported(regard, lower, files, tmp_path):
    targets = (files / "test.en").read_text(encoding="utf-8").splitlines()
    capitals = sum(any(letter.isupper() for letter in target) for target in targets)
    assert 0 < capitals < 20 == len(targets)
    given = "--source", files / "test.fr", "--target", files / "test.en"
    result = regard("evaluate", lower, *given)
    assert f"warning: {TOLD.format(capitals)}" in result.stderr and "case:mixed" in result.stdout
    assert (
        TOLD.format(capitals) in json.loads(regard("evaluate", lower, *given, "--format", "json").stdout)["notes"][-1]
    )
    assert f"warning: {lower}: {TOLD.format(capitals)}" in regard("compare", lower, lower, *given).stderr
    folded = tmp_path / "test.en"
    folded.write_text("".join(f"{target.lower()}\n" for target in targets), encoding="utf-8")
    assert "lower case" not in regard("evaluate", lower, "--source", files / "test.fr", "--target", folded).stderr


def test_a_translator_that_writes_capitals_says_nothing(regard, run, files):
    given = "--source", files / "test.en", "--target", files / "test.fr"
    assert "lower case" not in regard("evaluate", run, *given).stderr
