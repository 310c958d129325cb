"""A further task needs nothing but its own folder: every command works for it."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import regard.tasks
from regard.cli.app import app
from regard.errors import ConfigError
from regard.tasks.core.config import as_yaml, check, keys, parse_assignments, parse_yaml
from regard.tasks.core.notes import unknown_words
from regard.tasks.core.settings import task_names
from regard.tasks.core.task import find_task

TRAINING = {"steps": 7, "monitor": "right", "better": "max", "learning_rate": 0.1, "warmup_steps": 0}


@pytest.fixture(scope="module", autouse=True)
def _entered():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regard.tasks, "__path__", [*regard.tasks.__path__, str(Path(__file__).parent / "tiny")])
        yield
    for name in [name for name in sys.modules if name.startswith("regard.tasks.greater")]:
        del sys.modules[name]


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}"
    return result


@pytest.fixture(scope="module")
def run(tmp_path_factory, _entered):
    folder = tmp_path_factory.mktemp("greater") / "run"
    given = [f"training.{key}={value}" for key, value in TRAINING.items()]
    call("train", "greater", "model.kind=deep", "model.width=5", *given, "--threads", 1, "--run", folder)
    return folder


def test_it_is_trained_resumed_evaluated_compared_and_shown(run, tmp_path):
    assert json.loads((run / "results.json").read_text())["parameters"] == 2 * 5 + 5 + 5 * 2 + 2
    call("train", "--resume", run, "training.steps=9")
    shown = call("evaluate", run, "count=17")
    assert "17 numbers" in shown.stdout and "chance 0.500" in shown.stdout and "of the test" in shown.stderr
    entry = json.loads(call("evaluate", run, "--format", "json").stdout)
    assert (
        entry["data"] == "held out" and entry["numbers"] == 13 and sum(row["numbers"] for row in entry["lengths"]) == 13
    )
    assert "count=17 right" in call("compare", run, run).stdout
    call("show", run, "--length", 2, "--out", tmp_path / "two.json")
    assert len(json.loads((tmp_path / "two.json").read_text())["matrices"][0]["rows"]) == 2
    assert "greater" in call("show", run, "0.5 1.5").stdout
    assert '"width"' in call("schema", "greater").stdout
    shown = " ".join(call("train", "--help").stdout.split())
    assert all(name in shown for name in task_names() if name != "greater")


def test_what_does_not_fit_it_is_an_error_before_anything_is_loaded(run):
    assert "--tsv is for translation" in call("evaluate", run, "--tsv", "a.tsv", code=2).stderr
    assert "Did you mean 'count'" in call("evaluate", run, "cuont=3", code=2).stderr
    assert "--units says nothing about a run of greater" in call("show", run, "--units", "words", code=2).stderr
    assert "is a run of greater; this needs one of translation" in call("translate", run, "a", code=2).stderr
    wrong = call("train", "greater", "training.monitor=loss", "model.kind=deap", code=2).stderr
    assert "training.monitor: no measure is named 'loss'. Known: right." in wrong
    assert "model.kind: 'deap' is not one of its values. Did you mean 'deep'?" in wrong


def test_words_that_are_unknown_are_noted_in_the_language_of_the_view():
    assert unknown_words([], "en") == unknown_words([], "zh") == []
    assert unknown_words(["zork", "不"], "en") == ["Unknown words: zork 不"]
    assert unknown_words(["zork"], "zh") == ["未登录词：zork"]


@pytest.mark.parametrize("name", ["classification", "language", "masked", "tagging"])
def test_a_task_without_examples_shows_none(name):
    assert find_task({"task": name}).examples(None, None) is None


def test_a_recipe_and_a_study_of_it(tmp_path):
    base = {"name": "tiny", "title": "t", "minutes": 1, "evaluate": {"count": 19}}
    base["config"] = {"task": "greater", "threads": 1, "training": TRAINING}
    recipe = {**base, "paper": "p", "published": {"where": "w"}, "ours": {}, "deviations": []}
    recipe["bands"] = [{"metric": "right", "at_least": 0}]
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(recipe))
    result = call("reproduce", file, "--run", tmp_path / "runs")
    assert "reached" in result.stdout and (tmp_path / "runs" / "examples.html").is_file()
    file.write_text(yaml.safe_dump({**recipe, "bands": [{"metric": "bleu", "at_least": 0}]}))
    assert "bands.0.metric: 'bleu' is not one of the measures of greater" in call("reproduce", file, code=2).stderr

    rows = [
        {"name": "deep", "title": "d", "config": {"model": {"kind": "deep"}}},
        {"name": "flat", "title": "f", "config": {}},
    ]
    study = {**base, "terms": ["x"], "columns": ["right", "parameters"], "lengths": {"measure": "right"}, "rows": rows}
    file.write_text(yaml.safe_dump(study))
    result = call("study", file, "--run", tmp_path / "study")
    assert [line.split()[-1] for line in result.stdout.splitlines() if line[:4] in ("deep", "flat")] == ["17", "6"]
    assert "Test numbers by sign: −: " in (tmp_path / "study" / "table.md").read_text(encoding="utf-8")
    before = (tmp_path / "study" / "deep" / "seed-0" / "evaluations.json").stat().st_mtime_ns
    call("study", file, "--run", tmp_path / "study")
    assert (tmp_path / "study" / "deep" / "seed-0" / "evaluations.json").stat().st_mtime_ns == before


def test_settings_of_several_kinds_are_distinguished():
    from regard.tasks.greater.settings import Deep, Flat, GreaterSettings

    assert check(GreaterSettings, {"model": {"bias": False}}).model == Flat(bias=False)  # the default's kind
    deep = check(GreaterSettings, parse_assignments(["model.kind=deep", "model.width=7"]))
    assert deep.model == Deep(width=7) and check(GreaterSettings, parse_yaml(as_yaml(deep), "text")) == deep
    assert {"model.kind", "model.bias", "model.width"} <= set(keys(GreaterSettings))
    with pytest.raises(ConfigError) as caught:
        check(GreaterSettings, {"model": {"kind": "deep", "widht": 3, "width": 0}, "width": 1})
    text = str(caught.value)
    assert "model.widht: no such setting. Did you mean 'width'?" in text
    assert "model.width: Input should be greater than or equal to 1, given 0" in text
    assert "\n  width: no such setting. Did you mean 'model.width'?" in text
    with pytest.raises(ConfigError, match=r"model\.width: no such setting\."):
        check(GreaterSettings, {"model": {"width": 3}})
    assert find_task({"task": "greater"}).faults({"training": {"monitor": "right", "better": "min"}}) == [
        "training.better: right should be max; set training.better=max"
    ]
