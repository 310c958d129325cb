"""A tiny run, trained once by the command line, that the tests of the commands share."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.data.synthetic.phrases import phrases

TINY = [
    "data.tokenizer=words",
    "data.tokens=600",
    "data.held_out=7",
    "data.max_length=40",
    "model.cell=gru",
    "model.embedding_dim=24",
    "model.encoder_dim=24",
    "model.decoder_dim=24",
    "model.attention_dim=24",
    "model.dropout=0",
    "training.steps=12",
    "training.learning_rate=0.01",
    "training.warmup_steps=2",
    "training.log_every=5",
    "training.save_every=8",
    "search.max_length=14",
]


@pytest.fixture(scope="session")
def regard():
    """Call the program; gives the result with exit_code, stdout and stderr."""
    runner = CliRunner()

    def call(*arguments, stdin=None, code=0):
        result = runner.invoke(app, [str(one) for one in arguments], input=stdin, catch_exceptions=False)
        assert result.exit_code == code, f"exit code {result.exit_code}, not {code}\n{result.stdout}\n{result.stderr}"
        return result

    return call


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """Line-aligned text: train.en, train.fr and, of other phrases, test.en, test.fr, test.links."""
    folder = tmp_path_factory.mktemp("text")
    made = phrases(150, seed=3)
    for name, pairs in (("train", made[:130]), ("test", made[130:])):
        (folder / f"{name}.en").write_text("".join(pair.source + "\n" for pair in pairs), encoding="utf-8")
        (folder / f"{name}.fr").write_text("".join(pair.target + "\n" for pair in pairs), encoding="utf-8")
        links = ["".join(f"{one}-{two} " for one, two in sorted(pair.links)).strip() for pair in pairs]
        (folder / f"{name}.links").write_text("\n".join(links) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def run(regard, files, tmp_path_factory) -> Path:
    """The run folder of the tiny model."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    regard("train", "translation", "--source", files / "train.en", "--target", files / "train.fr", "--run", folder,
           "--seed", 5, "--threads", 1, "--quiet", *TINY)  # fmt: skip
    assert json.loads((folder / "results.json").read_text())["steps"] == 12
    return folder
