"""Studies: those of the wheel are sound and on equal terms; tables and lines by hand."""

import math
from pathlib import Path

import pytest
import torch

from regard.data.translation.batches import TextBatch
from regard.errors import ConfigError
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.tasks.core.config import check, leaves, merge
from regard.tasks.core.evaluations import keep_evaluation, read_evaluations
from regard.tasks.experiments.experiment import locate, resolved
from regard.tasks.experiments.reproduce import finished, reproduce, settled, tested as data_of
from regard.tasks.experiments.studies import Row, Study, find, shipped
from regard.tasks.experiments.study import Outcome, run_study
from regard.tasks.experiments.study_table import lengths_view, markdown, table, to_json
from regard.tasks.translation.settings import TranslationSettings
from regard.training.interrupt import Interrupted
from regard.training.run.run import RunFolder
from tests.shared import SHARED, needs_shared

STUDIES = {study.name: study for study in shipped() if study.task == "translation" and study.data is not None}
ROWS = [(study, row) for study in STUDIES.values() for row in study.rows]


def settings_of(study: Study, row: Row) -> TranslationSettings:
    return check(TranslationSettings, resolved(study.experiment(row).config, Path("data")))


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_the_rows_of_a_study_differ_in_their_model_alone(study):
    base = dict(leaves(settings_of(study, Row(name="base", title="", config={})).model_dump(mode="json")))
    whole = [dict(leaves(settings_of(study, row).model_dump(mode="json"))) for row in study.rows]
    for row, settings in zip(study.rows, whole, strict=True):
        given = {f"model.{key.split('.')[1]}" for key, _ in leaves(row.config)}
        differing = {key for key in settings.keys() | base.keys() if settings.get(key) != base.get(key)}
        assert all(any(key.startswith(one) for one in given) for key in differing), row.name
    assert len({tuple(sorted(map(str, settings.items()))) for settings in whole}) == len(whole)
    used = {str(value) for _, value in leaves({"train": study.config["data"], "test": study.evaluate})}
    assert {f"${{data}}/{file.name}" for file in study.data.files} == {name for name in used if "${data}" in name}


@needs_shared
def test_the_studies_are_of_the_real_files():
    for study in STUDIES.values():
        locate(study, SHARED / "data" / "multi30k", warn=lambda text: pytest.fail(text))


@pytest.mark.parametrize(("study", "row"), ROWS, ids=[f"{study.name}-{row.name}" for study, row in ROWS])
def test_each_row_can_be_trained(study, row):
    """Its own choices, in a tiny model: one batch, and a gradient for every parameter."""
    tiny = {"embedding_dim": 7, "encoder_dim": 5, "decoder_dim": 10, "attention_dim": 3, "dropout": 0.0}
    settings = check(TranslationSettings, merge(resolved(study.experiment(row).config, Path("d")), {"model": tiny}))
    torch.manual_seed(0)
    model = RecurrentTranslator(settings.model, 11, 11)
    words = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]])
    inputs = torch.tensor([[2, 4, 8], [2, 9, 0]])
    outputs = torch.tensor([[4, 8, 3], [9, 3, 0]])
    lengths = torch.tensor([3, 2])
    made = model(TextBatch(torch.arange(2), words, torch.tensor([4, 2]), inputs, outputs, lengths), 0.1)
    made.total.backward()
    assert math.isfinite(float(made.total.detach())) and int(made.count) == 5
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name


BARE = {
    "name": "tiny",
    "title": "A study",
    "minutes": 1,
    "terms": ["All   alike."],
    "columns": ["bleu", "entropy", "tokens_per_second"],
    "lengths": {"measure": "bleu", "rows": ["one", "two"]},
    "config": {"task": "translation", "model": {"attention": "dot", "encoder_dim": 5}},
    "rows": [
        {"name": "one", "title": "the | first", "config": {"model": {"attention": "additive"}}},
        {"name": "two", "title": "second", "config": {}},
        {"name": "three", "title": "third", "config": {}},
    ],
}


def outcomes(study: Study) -> list[Outcome]:
    def lengths(short: float | None, long: float) -> list[dict]:
        return [{"length": "3–9", "pairs": 1200, "bleu": short}, {"length": "10+", "pairs": 3, "bleu": long}]

    one, two, three = study.rows
    rest = ({"bleu": "tok:13a"}, None, "pairs", "source words")
    return [
        Outcome(one, 0, {"bleu": 30.0, "entropy": 1.5, "tokens_per_second": 4000.4}, lengths(35, 20), *rest),
        Outcome(one, 1, {"bleu": 31.0, "entropy": 1.5, "tokens_per_second": 4000.0}, lengths(36, 25), *rest),
        Outcome(two, 0, {"bleu": 12.345, "tokens_per_second": 12345.6}, lengths(None, 5), *rest),
        Outcome(two, 1, failure="it\nbroke " + "x" * 80),
        Outcome(three, 0, failure="not run"),
        Outcome(three, 1, failure="not run"),
    ]


def test_a_row_is_the_base_but_for_its_own_settings():
    study = check(Study, BARE)
    experiment = study.experiment(study.rows[0])
    assert experiment.config == {"task": "translation", "model": {"attention": "additive", "encoder_dim": 5}}
    assert (experiment.name, experiment.title) == ("tiny", "the | first")
    assert [row.name for row in study.choose(["three", "one"])] == ["one", "three"]
    with pytest.raises(ConfigError, match="no row named 'tow'. Did you mean 'two'"):
        study.choose(["tow"])
    with pytest.raises(ConfigError, match="no study is named 'multi30k-atentions'. Did you mean 'multi30k-attentions'"):
        find("multi30k-atentions")
    wrong = {**BARE, "columns": ["bleu", "speed"], "rows": [*BARE["rows"], BARE["rows"][0]]}
    with pytest.raises(ConfigError, match="columns.1: 'speed' is not one"):
        check(Study, wrong)
    with pytest.raises(ConfigError, match="given twice: one"):
        check(Study, {**wrong, "columns": ["bleu"]})
    with pytest.raises(ConfigError, match="`lengths` names no row with 'four'"):
        check(Study, {**BARE, "lengths": {"measure": "bleu", "rows": ["four"]}})
    for edges in ([7, 4], [4, 4], [0, 4]):
        with pytest.raises(ConfigError, match="each greater than the one before"):
            check(Study, {**BARE, "edges": edges})


def test_a_table_shows_means_and_ranges_what_is_absent_and_what_failed():
    study = check(Study, BARE)
    heads, rows = table(study, outcomes(study))
    assert heads == ["row", "", "BLEU", "entropy", "tokens/s", "remark"]
    assert rows[0] == ["one", "the | first", "30.50 (30.00–31.00)", "1.50", "4,000 (4,000–4,000)", ""]
    assert rows[1][:5] == ["two", "second", "12.35", "–", "12,346"]
    assert rows[1][5].startswith("seed 1: it broke xxx") and len(rows[1][5]) == 60
    assert rows[2] == ["three", "third", "–", "–", "–", "seed 0: not run; seed 1: not run"]
    assert table(study, outcomes(study)[:2])[0][-1] == "tokens/s"  # nothing failed, no remarks


def test_lines_by_length_are_means_over_seeds_of_the_rows_asked_for():
    study = check(Study, BARE)
    view = lengths_view(study, study.lengths[0], outcomes(study))
    [matrix] = view.matrices
    assert (matrix.rows, matrix.columns, matrix.title) == (("the | first", "second"), ("3–9", "10+"), "BLEU")
    assert matrix.values[0].tolist() == [35.5, 22.5] and matrix.values[1, 1] == 5 and math.isnan(matrix.values[1, 0])
    assert view.all_notes == ("Test pairs by source words: 3–9: 1,200, 10+: 3.",)
    chinese = lengths_view(study, study.lengths[0], outcomes(study), "zh")
    assert chinese.axes(chinese.matrices[0]) == ("模型", "原文词数") and "1,200" in chinese.notes[0]
    assert lengths_view(study, study.lengths[0], []).matrices[0].values.size == 0


def test_an_unfinished_row_is_reported_and_a_fault_is_one_rows_own(tmp_path, monkeypatch):
    study = check(Study, BARE)
    RunFolder.create(tmp_path / "two" / "seed-0", {"task": "translation"})
    outcomes = run_study(study, tmp_path, seeds=[0], rows=[])
    assert [one.failure for one in outcomes] == ["not run", "begun, not finished", "not run"]

    def break_down(experiment, run, **options):
        raise KeyError(run.parent.name)

    monkeypatch.setattr("regard.tasks.experiments.study.reproduce", break_down)
    said: list[str] = []
    outcomes = run_study(study, tmp_path, seeds=[0], rows=study.rows, say=said.append, warn=said.append)
    assert [one.failure for one in outcomes] == ["KeyError: 'one'", "KeyError: 'two'", "KeyError: 'three'"]
    assert said[:2] == ["one, seed 0: the | first", "one, seed 0, failed: KeyError: 'one'"]

    def stop(experiment, run, **options):
        raise Interrupted("stopped", 15)

    monkeypatch.setattr("regard.tasks.experiments.study.reproduce", stop)
    with pytest.raises(Interrupted):  # asked to stop, it goes on with no other row
        run_study(study, tmp_path, seeds=[0], rows=study.rows, say=said.append, warn=said.append)


def test_a_finished_run_of_which_too_little_is_known_is_its_rows_own_fault(tmp_path, monkeypatch):
    study = check(Study, BARE)
    RunFolder.create(tmp_path / "two" / "seed-0", {"task": "translation"}).write_results({"steps": 3})
    entry = {"measures": {"bleu": 1.0}, "lengths": [], "signatures": {}}
    monkeypatch.setattr(
        "regard.tasks.experiments.study.finished", lambda one, run, **options: entry if "two" in str(run) else None
    )
    outcomes = run_study(study, tmp_path, seeds=[0], rows=[], warn=lambda text: None)
    assert [one.failure for one in outcomes] == ["not run", "KeyError: 'tokens_per_second'", "not run"]


def test_what_was_measured_before_a_run_continues_is_not_reported_of_it(tmp_path, monkeypatch):
    """Killed between its last step and its evaluation, it has none: the old one is of other weights."""
    experiment = check(Study, {**BARE, "evaluate": {"phrases": {"count": 3}}}).experiment(check(Row, BARE["rows"][1]))
    settings = settled(experiment, 0, None, None).model_dump(mode="json")
    run = RunFolder.create(tmp_path / "run", settings)
    run.write_results({})
    entry = {"data": "tiny", "test": data_of(experiment, None)}
    keep_evaluation(run.path, {**entry, "measures": {"bleu": 1.0}})
    keep_evaluation(run.path, {"data": "another", "measures": {}})
    assert finished(experiment, run.path, seed=0)["measures"] == {"bleu": 1.0}

    def killed(run):
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.tasks.experiments.reproduce.fit", lambda settings, run, **options: None)
    monkeypatch.setattr("regard.tasks.experiments.reproduce.load", killed)
    with pytest.raises(KeyboardInterrupt):
        reproduce(experiment, run.path, seed=0)
    assert finished(experiment, run.path, seed=0) is None
    assert [one["data"] for one in read_evaluations(run.path)] == ["another"]


def test_the_files_hold_the_table_the_terms_and_each_seed():
    study = check(Study, BARE)
    text = markdown(study, outcomes(study))
    assert "| one | the \\| first | 30.50 (30.00–31.00) |" in text and "- All alike.\n" in text
    assert "BLEU: `tok:13a`" in text and "| second | – | 5.00 |" in text
    written = to_json(study, outcomes(study))
    assert [(one["row"], one["seed"], one["values"].get("bleu")) for one in written["rows"]][:3] == [
        ("one", 0, 30.0),
        ("one", 1, 31.0),
        ("two", 0, 12.345),
    ]
    assert written["rows"][3]["failure"].startswith("it\nbroke")  # all of it
