"""`regard demo` on a recipe that is over at once: what it prints and what it leaves."""

import sys

from regard.cli import demo
from regard.tasks.core.config import merge
from regard.tasks.experiments.ledger import find

SMALL = {
    "data": {"phrases": {"count": 330}, "held_out": 20},
    "model": {"embedding_dim": 7, "encoder_dim": 5, "decoder_dim": 11, "attention_dim": 3},
    "training": {"epochs": 1, "warmup_steps": 1},
}


def test_demo_prints_its_measures_and_draws_three_alignments(regard, tmp_path, monkeypatch):
    recipe = find("demo-en-zh")
    small = recipe.model_copy(update={"config": merge(recipe.config, SMALL)})
    monkeypatch.setattr("regard.tasks.experiments.demo.recipe_to", lambda language: small)
    folder = tmp_path / "demo"
    printed = regard("demo", "--to", "zh", "--out", folder, "--threads", 1).stdout
    assert "exact match on 20 phrases never seen: " in printed
    assert "alignment error rate" in printed and "diagonal" in printed and "random word" in printed
    assert printed.count("target ↓") == 3
    assert str(folder / "alignment.html") in printed and str(folder / "alignment.png") in printed
    assert (folder / "alignment.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "alignment.html").read_text(encoding="utf-8")
    assert "<!doctype html>" in page.lower() and "effect" in page
    assert (folder / "model.safetensors").is_file()
    assert "is there already" in regard("demo", "--to", "zh", "--out", folder, code=1).stderr


def test_the_next_command_is_called_as_this_one_was(monkeypatch, tmp_path):
    """After `make demo` no shell finds `regard`; what is told to be typed must work all the same."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/regard", "demo"])
    assert demo._program() == ".venv/bin/regard"
    monkeypatch.setattr(sys, "argv", ["/a/regard/__main__.py", "demo"])
    monkeypatch.setattr(sys, "executable", "/my python")
    assert demo._program() == "'/my python' -m regard"
    (tmp_path / "regard").write_text("#!/bin/sh\n")
    (tmp_path / "regard").chmod(0o755)
    assert demo._program() == "regard"
