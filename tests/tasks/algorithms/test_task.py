"""The task of algorithms: a run from its settings to answers, and the picture of a memory at work."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.attention.attended import Attended
from regard.errors import ConfigError, DataError
from regard.layers.sequence import StepOutput
from regard.tasks.algorithms.predictor import AlgorithmsPredictor
from regard.tasks.algorithms.settings import AlgorithmSettings
from regard.tasks.algorithms.task import TASK
from regard.tasks.core.config import check
from regard.tasks.core.fit import fit
from regard.tasks.core.load import load
from regard.tasks.core.task import Nothing
from regard.training.interrupt import Interrupted
from regard.training.progress import Silent

TINY = {
    "task": "algorithms",
    "data": {"problem": "copy", "bits": 2, "longest": 3, "sequences": 5, "batch": 2, "validation": 7},
    "model": {"kind": "ntm", "width": 7, "slots": 5, "slot_dim": 3},
    "training": {"steps": 7, "optimizer": "rmsprop", "validate_every": 3, "log_every": 2, "save_every": 1},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("algorithms") / "run"
    results = fit(check(AlgorithmSettings, TINY), folder, progress="silent")
    assert results["steps"] == 7
    return folder


class StopAt(Silent):
    """Asks to stop as Ctrl-C does."""

    def __init__(self, step):
        self.step = step

    def update(self, step, done, left, numbers, line):
        if step == self.step:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)


def test_a_stopped_run_continues_bit_for_bit_b33(run, tmp_path):
    """B33, K10: rmsprop's moments and the place in the sequences are saved; no file is a pickle."""
    settings = check(AlgorithmSettings, TINY)
    with pytest.raises(Interrupted):
        fit(settings, tmp_path / "run", progress=StopAt(4))
    fit(settings, tmp_path / "run", resume=True, progress="silent")
    whole, broken = (sorted((folder / "checkpoints").iterdir())[-1] for folder in (run, tmp_path / "run"))
    assert whole.name == broken.name == "step-00000007"
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()
    kinds = {path.suffix for path in run.rglob("*") if path.is_file() and "events" not in str(path)}
    assert kinds == {".yaml", ".jsonl", ".json", ".safetensors"}


def test_an_evaluation_tests_lengths_never_trained(run):
    evaluation = TASK.evaluate(load(run), run, {"sequences": 11, "seed": 3})
    assert set(evaluation.measures) == set(TASK.measures) and evaluation.items == 33
    assert [row["length"] for row in evaluation.lengths] == ["1–3", "6", "18"]
    assert evaluation.lengths[1]["chance"] == 6 and evaluation.lengths[2]["chance"] == 18
    assert evaluation.baselines["chance"] == evaluation.lengths[0]["chance"]
    again = TASK.evaluate(load(run), run, {"sequences": 11, "seed": 3, "lengths": [6]})
    assert again.measures["wrong_bits_twice"] == evaluation.measures["wrong_bits_twice"]
    assert "median_sixfold" not in again.measures


def test_one_line_in_is_one_line_out_b32(run):
    """K8, B04's rooms: an empty line has an empty answer, in order, however many are solved together."""
    solver = load(run)
    lines = ["01", "", "10 11 00", "11", ""]
    answers = list(solver.stream(lines, origin="x.txt"))
    assert [len(answer.split()) for answer in answers] == [1, 0, 3, 1, 0]
    assert answers == list(solver.stream(lines, origin="x.txt", batch=2))
    with pytest.raises(DataError, match=r"x\.txt, line 3: row 1 is '0'.*copy reads rows of 2 bits"):
        list(solver.stream(["01", "", "0"], origin="x.txt"))


class Copier(torch.nn.Module):
    """Copies by rule: writes row t to slot t, and reads it again; its output is what it read."""

    def __init__(self, late=0):
        super().__init__()
        self.unused, self.late = torch.nn.Parameter(torch.zeros(1)), late

    def start(self, batch):
        return SimpleNamespace(memory=torch.zeros(batch, 9, 2), step=0, asked=None)

    def step(self, state, inputs):
        memory, now, asked = state.memory.clone(), state.step, state.asked
        reading = 0 if asked is None else now - asked
        writing = max(0, now - self.late)
        output = memory[:, reading]
        if asked is None:
            memory[:, writing + self.late] = inputs[:, :2]
        asked = now + 1 if inputs[0, 2] == 1 else asked
        place = torch.eye(9)
        looks = {
            "read 0": Attended(None, weights=place[None, None, reading]),
            "write 0": Attended(None, weights=place[None, None, writing]),
        }
        return StepOutput(200 * output - 100, SimpleNamespace(memory=memory, step=now + 1, asked=asked), looks)


@pytest.mark.parametrize("language, note", [("en", "when that row was given, at 3 of 3"), ("zh", "3 步中有 3 步")])
def test_the_picture_says_that_the_read_head_follows(language, note):
    """A machine that copies by rule: its slots are drawn, others not, and the note counts the steps."""
    solver = AlgorithmsPredictor(Copier(), Nothing(), check(AlgorithmSettings, TINY))
    view = TASK.view(solver, "01 11 10", language=language)
    assert view.kind == "memory" and note in view.notes[0]
    read, write, memory = view.matrices
    assert read.rows[:4] == ("01", "11", "10", "?") and read.rows[4:] == ("→01", "→11", "→10")
    assert write.columns == ("0", "1", "2", "3", "4", "5", "6")
    assert np.array_equal(read.values[4:, :3], np.eye(3)) and np.array_equal(write.values[:3, :3], np.eye(3))
    assert memory.values[-1, :4].tolist() == pytest.approx([2**-0.5, 1, 2**-0.5, 0])
    assert "0 of 6" in view.title or "6 位中错 0" in view.title
    assert any("2" in note and "9" in note for note in view.notes[1:])


def test_where_no_head_settles_all_slots_are_drawn(monkeypatch):
    monkeypatch.setattr("regard.tasks.algorithms.view._USED", 1.0)
    view = TASK.view(AlgorithmsPredictor(Copier(), Nothing(), check(AlgorithmSettings, TINY)), "01 11 10")
    assert view.matrices[0].columns == tuple("012345678") and not any("not drawn" in note for note in view.notes)


def test_examples_are_drawn_and_repeat(run):
    solver = load(run)
    one, other = (TASK.view(solver, None, length=3, seed=5) for _ in range(2))
    assert one.matrices[0].rows == other.matrices[0].rows and len(one.matrices[0].rows) == 7
    assert len(TASK.view(solver, None).matrices[0].rows) == 7
    with pytest.raises(ConfigError, match="--length and --seed"):
        TASK.view(solver, "01", length=3)


def test_a_model_without_heads_shows_its_answer(tmp_path):
    plain = {**TINY, "model": {"kind": "lstm", "width": 5}, "training": {"steps": 1}}
    fit(check(AlgorithmSettings, plain), tmp_path / "run", progress="silent")
    view = TASK.view(load(tmp_path / "run"), "01 11")
    assert view.kind == "answers" and view.matrices[0].values.shape == (2, 2)


def test_a_task_that_has_no_smoothing_says_so():
    assert TASK.problems({"training": {"smoothing": 0.1}}) and not TASK.problems({"training": {}})


def test_a_fixed_context_needs_to_know_which_input_marks_the_question():
    """Of repeat_copy the last input is how many times: a decoder that waits for it may never begin."""
    tree = {"data": {"problem": "repeat_copy"}, "model": {"kind": "fixed"}}
    assert TASK.problems(tree) == [
        "model.mark: the last input of repeat_copy is how many times; the mark stands before it: model.mark=-2"
    ]
    assert not TASK.problems({**tree, "model": {"kind": "fixed", "mark": -2}})
    assert not TASK.problems({**tree, "data": {"problem": "recall"}})
    drawn = TASK.data(check(AlgorithmSettings, tree), None, print).batches
    for number in range(5):
        item = drawn.item(number)
        assert np.flatnonzero(item.question[:, -2] > 0.5).tolist() == [item.length]


def test_every_problem_is_of_every_kind_of_model():
    problems = ("copy", "repeat_copy", "recall", "priority_sort")
    for problem, kind in itertools.product(problems, ("ntm", "lstm")):
        check(AlgorithmSettings, {"task": "algorithms", "data": {"problem": problem}, "model": {"kind": kind}})
