"""Runs that an earlier version trained still load, and answer what they answered then: see trained/README.md."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import regard
from regard.cli.app import app

RUNS = Path(__file__).parent / "trained"
NAMES = sorted(path.parent.name for path in RUNS.glob("*/outputs.json"))

# By the verb of a call: what the same model answers in Python to the input of a recorded line, and the line's answer.
IN_PYTHON = {
    "translate": lambda model, line: (model.translate([line["source"]])[0].text, line["outputs"][0]["text"]),
    "caption": lambda model, line: (model.caption([model.image_of(Path(line["image"]))])[0].text, line["caption"]),
    "fill": lambda model, line: (model.fill([line["text"]])[0].filled, line["filled"]),
    "classify": lambda model, line: (model.classify([line["text"]])[0].label, line["label"]),
    "tag": lambda model, line: (list(model.tag([line["text"]])[0].tags), line["tags"]),
}


def recorded(name: str) -> list[dict[str, Any]]:
    return json.loads((RUNS / name / "outputs.json").read_text(encoding="utf-8"))


def verb_of(name: str) -> str:
    return recorded(name)[0]["call"][0]


@pytest.fixture
def unpack(tmp_path, monkeypatch):
    """Copy a run to ./run of an empty folder, and go there."""

    def copy(name: str) -> Path:
        shutil.copytree(RUNS / name, tmp_path / "run")
        monkeypatch.chdir(tmp_path)
        return Path("run")

    return copy


def answer(call: list[Any]) -> str:
    result = CliRunner().invoke(app, [*map(str, call), "--threads", "1"], catch_exceptions=False)
    assert result.exit_code == 0, f"{call}: exit code {result.exit_code}\n{result.stdout}\n{result.stderr}"
    return result.stdout


_LAST_BIT = 2.0**-20
"""A float32's between 8 and 16: a log-probability near 0 is the difference of two logits of that size."""


def compare(found: Any, expected: Any, place: str) -> None:
    """Text and whole numbers are the same, others are close; an object may have more entries than it had."""
    if isinstance(expected, dict):
        assert set(expected) <= set(found), f"{place}: {sorted(set(expected) - set(found))} are missing"
        for key, value in expected.items():
            compare(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), f"{place}: {len(found)} entries, not {len(expected)}"
        for at, (one, other) in enumerate(zip(found, expected, strict=True)):
            compare(one, other, f"{place}[{at}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=3e-4, abs=2 * _LAST_BIT), place
    else:
        assert found == expected, place


def check(one: dict[str, Any]) -> None:
    """Make a recorded call again, and compare what comes of it."""
    out, place = answer(one["call"]), " ".join(map(str, one["call"]))
    if "text" in one:
        compare(out, one["text"], place)
    if "lines" in one:
        compare([json.loads(line) for line in out.splitlines()], one["lines"], place)
    if "object" in one:
        compare(json.loads(out), one["object"], place)
    if "values" in one:
        view = json.loads(Path("look.json").read_text(encoding="utf-8"))
        compare([matrix["values"] for matrix in view["matrices"]], one["values"], place)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_run_answers_as_it_did(unpack, name):
    unpack(name)
    for one in recorded(name):
        check(one)


@pytest.mark.parametrize("name", [name for name in NAMES if verb_of(name) in IN_PYTHON])
def test_it_answers_so_in_python_too(unpack, name):
    model, verb = regard.load(unpack(name), threads=1), verb_of(name)
    for line in [one for one in recorded(name) if one["call"][0] == verb][-1]["lines"]:
        found, expected = IN_PYTHON[verb](model, line)
        assert found == expected


def test_another_weight_gives_another_answer(unpack):
    weights = unpack("tagging") / "model.safetensors"
    tensors = load_file(weights)
    for tensor in tensors.values():
        tensor.view(-1)[0] += 0.05
    save_file(tensors, weights)
    with pytest.raises(AssertionError):
        for one in recorded("tagging"):
            check(one)


def test_every_run_stands_on_the_page():
    page = (RUNS / "README.md").read_text(encoding="utf-8")
    assert len(NAMES) > 20 and [name for name in NAMES if f"`{name}`" not in page] == []
    assert [path.name for path in sorted(RUNS.iterdir()) if path.is_dir()] == NAMES
