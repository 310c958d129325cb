"""The task of pointing: a run from its settings to answers, what is measured, REINFORCE, and its pictures."""

import itertools

import numpy as np
import pytest
import torch

from regard.data.points.batches import PointBatch
from regard.data.points.problem import point_problem
from regard.errors import ConfigError, DataError
from regard.models.pointing.pointer import PointerNetwork
from regard.models.pointing.settings import PointerSettings
from regard.tasks.core.config import check
from regard.tasks.core.fit import fit
from regard.tasks.core.load import load
from regard.tasks.core.task import Nothing
from regard.tasks.pointing.evaluation import measured
from regard.tasks.pointing.learning import from_answers, tour_lengths
from regard.tasks.pointing.predictor import Pointed, PointingPredictor
from regard.tasks.pointing.settings import PointingSettings
from regard.tasks.pointing.task import TASK
from regard.tasks.pointing.view import answers_view, plane, pointing_view
from regard.views.view import Plane

TINY = {
    "task": "pointing",
    "data": {"problem": "tsp", "shortest": 3, "longest": 5, "sets": 10, "batch": 4, "validation": 7},
    "model": {"width": 8},
    "training": {"steps": 5, "validate_every": 2, "log_every": 2, "save_every": 1},
}


def settings_of(**parts):
    return check(PointingSettings, {**TINY, **parts}, TASK.faults)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pointing") / "run"
    assert fit(settings_of(), folder, progress="silent")["steps"] == 5
    return folder


@pytest.fixture(scope="module")
def pointer(run):
    return load(run)


def test_it_continues_bit_for_bit_b33(run, tmp_path):
    """Of 3 steps and then of 5 it is the run of 5; no file is a pickle."""
    short = {**TINY, "training": {**TINY["training"], "steps": 3, "decay": "none"}}
    whole = {**TINY, "training": {**TINY["training"], "decay": "none"}}
    fit(check(PointingSettings, short), tmp_path / "a", progress="silent")
    fit(check(PointingSettings, whole), tmp_path / "a", resume=True, progress="silent")
    fit(check(PointingSettings, whole), tmp_path / "b", progress="silent")
    one, two = (sorted((tmp_path / name / "checkpoints").iterdir())[-1] / "model.safetensors" for name in "ab")
    assert one.parent.name == "step-00000005" and one.read_bytes() == two.read_bytes()
    kinds = {path.suffix for path in run.rglob("*") if path.is_file() and "events" not in str(path)}
    assert kinds == {".yaml", ".jsonl", ".json", ".safetensors"}


def test_an_evaluation_has_a_row_a_size(pointer, run):
    evaluation = TASK.evaluate(pointer, run, {"sets": 6, "beam": 2})
    assert [row["points"] for row in evaluation.lengths] == ["3", "4", "5"] and evaluation.items == 18
    assert evaluation.measures["exact_shortest"] == 1 == evaluation.lengths[0]["exact"]  # of three points any tour is
    assert evaluation.measures["length"] >= 1 and evaluation.baselines["nearest_neighbour"] >= 1
    assert set(evaluation.measures) == {"exact", "exact_shortest", "exact_longest", "length"}
    larger = TASK.evaluate(pointer, run, {"sets": 2, "sizes": [7]})
    assert "exact_longest" not in larger.measures and larger.lengths[0]["points"] == "7"
    with pytest.raises(ConfigError, match="tsp begins with sets of 3; given 2"):
        TASK.evaluate(pointer, run, {"sizes": [2]})


def test_measures_by_hand(pointer):
    """Two squares: one tour is right, the other crosses: (4 + 2 + 2√2) / 8 of the length."""
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    right = [0, 1, 2, 3]
    metrics = measured(pointer, [square, square], [right, right], [[3, 2, 1, 0], [0, 2, 1, 3]])
    assert metrics == {"exact": 0.5, "length": pytest.approx((6 + 2 * 2**0.5) / 8)}


def test_answers_do_not_depend_on_who_is_answered_with_them_b32(pointer):
    """K6, K7: one by one, together, and in a file; of a beam's tours the shortest is told."""
    random = np.random.default_rng(1)
    sets = [random.random((size, 2)) for size in (5, 3, 4, 5)]
    together = pointer.choose(sets, beam=3)
    assert [pointer.choose([points], beam=3)[0].answer for points in sets] == [one.answer for one in together]
    text = "\n\n".join("\n".join(f"{x!r},{y!r}" for x, y in points.tolist()) for points in sets)
    streamed = list(pointer.stream(pointer.sets(text.splitlines(), "points.csv"), beam=3, batch=3))
    assert [one.answer for one in streamed] == [one.answer for one in together]
    for points, greedy, one in zip(sets, pointer.choose(sets), together, strict=True):
        assert sorted(one.answer) == list(range(len(points))) and 0 < one.probability <= 1
        assert one.weights.shape == (len(points) + 1, len(points) + 1)
        assert pointer.problem.length(points, one.answer) <= pointer.problem.length(points, greedy.answer) + 1e-9
    assert pointer.choose([]) == [] and list(pointer.stream(pointer.sets([], "nothing"))) == []
    with pytest.raises(DataError, match="points.csv, line 2: 'x' is no number"):
        list(pointer.stream(pointer.sets(["0,0", "x,1"], "points.csv")))


def test_scale_and_place_change_no_answer(pointer):
    points = np.random.default_rng(2).random((5, 2))
    assert pointer.choose([points])[0].answer == pointer.choose([points * 1e4 - 7e3])[0].answer


# Learning -----------------------------------------------------------------------------------------------------------


def test_the_loss_is_the_sum_of_the_right_choices():
    model, problem = PointingPredictor.build(settings_of(), Nothing()), point_problem("tsp")
    sets = [np.random.default_rng(3).random((size, 2)) for size in (5, 3)]
    answers = [problem.answers(points[None])[0] for points in sets]
    batch = PointBatch.of(sets, answers)
    found = from_answers(model, batch)
    logs = model.log_probabilities(model.encode(batch.points, batch.lengths), batch.answers)
    expected = -sum(logs[row, step, item + 1] for row, answer in enumerate(answers) for step, item in enumerate(answer))
    assert float(found.total.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)  # the end's is 0
    assert int(found.count) == 5 + 1 + 3 + 1


def test_points_that_single_precision_cannot_tell_apart_can_be_learned_k3():
    """Points 3 and 4 have one x in float32, the fourth is lower: so it is left of the third, for model and answer."""
    points = np.array([[0.0, 0.2], [1.0, 0.5], [0.3, 0.9], [0.3 + 1e-12, 0.1], [0.6, 1.0]])
    answers = point_problem("delaunay").answers(points[None])
    assert answers == [[0, 3, 2, 3, 2, 1, 2, 4, 1]]
    model = PointerNetwork(PointerSettings(width=8), 2, "triangles", 5)
    assert torch.isfinite(from_answers(model, PointBatch.of([points], answers)).total)


def test_reinforce_has_the_gradient_of_the_expected_length():
    """Over all 24 orders of four points: the exact Σ L(π) ∇p(π), and the mean of 20 estimates of 1,600 tours, within 4
    of their standard errors, component by component; the value is the tours' length.
    """
    torch.manual_seed(0)
    settings = settings_of(model={"width": 3}, learning={"by": "lengths", "draws": 8})
    model = PointingPredictor.build(settings, Nothing())
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(2)  # far from even chances
    points = torch.tensor([[[0.0, 0.0], [1.0, 0.1], [0.9, 0.8], [0.2, 0.5]]])
    orders = torch.tensor(list(itertools.permutations((1, 2, 3, 4))))

    def gradient(loss):
        model.zero_grad()
        loss.backward()
        return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])

    every = points.expand(24, -1, -1)
    memory = model.encode(every, torch.full((24,), 4))
    chances = model.log_probabilities(memory, orders).gather(-1, orders[..., None]).sum((1, 2)).exp()
    assert float(chances.sum().detach()) == pytest.approx(1, abs=1e-5)
    expected = (chances * tour_lengths(every, orders)).sum()
    exact, loss, estimates = gradient(expected), TASK.loss(settings), []
    batch = PointBatch(points.expand(200, -1, -1), torch.full((200,), 4), torch.zeros(200, 0, dtype=torch.long))
    for _ in range(20):
        found = loss(model, batch)
        assert int(found.count) == 1600
        assert float(found.total.detach()) / 1600 == pytest.approx(float(expected.detach()), abs=0.05)
        estimates.append(gradient(found.total) / 1600)
    mean, spread = torch.stack(estimates).mean(0), torch.stack(estimates).std(0)
    assert ((mean - exact).abs() <= 4 * spread / 20**0.5 + 1e-6).all()
    assert (exact.abs() > 10 * spread / 20**0.5).any()  # and not all of it is noise


def test_settings_that_do_not_fit_are_reported_at_once():
    wrong = {
        **TINY,
        "data": {"problem": "hull"},
        "learning": {"by": "lengths"},
        "training": {"smoothing": 0.1, "monitor": "length", "better": "min"},
    }
    with pytest.raises(ConfigError) as error:
        check(PointingSettings, wrong, TASK.faults)
    for message in ("hull has none; learn from answers", "may not be chosen at all", "hull has no length"):
        assert message in str(error.value)


# Pictures -----------------------------------------------------------------------------------------------------------


def test_an_answer_grows_step_by_step():
    tsp, points = point_problem("tsp"), np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    weights = np.eye(4)[[1, 2, 3, 0]]
    view = pointing_view(tsp, Pointed(points, [0, 1, 2], 1.0, weights))
    pointer, *steps = view.matrices
    assert pointer.rows == ("1", "2", "3", "end") and pointer.columns == ("end", "1", "2", "3")
    assert [one.rows for one in steps] == [
        ("1", "", "2", "", "3"),
        ("1", "2", "", "3"),
        ("1", "2", "3"),
        ("1", "2", "3", "1"),  # and back
    ]
    assert all(isinstance(one, Plane) for one in steps) and "the shortest has 3.414" in view.notes[0]
    delaunay = point_problem("delaunay")
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.1], [0.0, 1.0]])
    view = pointing_view(delaunay, Pointed(square, [0, 3, 1, 3, 1, 2], 1.0, None), "zh")
    assert view.kind == "plane" and [one.title for one in view.matrices] == ["第 1 步", "第 2 步"]
    assert view.matrices[1].rows == ("1", "4", "2", "1", "", "4", "2", "3", "4")
    sort = point_problem("sort")
    view = answers_view(sort, [Pointed(np.array([[20.0], [5.0], [10.0]]), [0, 2, 1], 1.0, weights)])
    assert view.matrices[0].columns == ("end", "20", "5", "10") and view.matrices[0].title == "set 1: 1 3 2"
    assert answers_view(sort, []).matrices == ()
    assert plane(points, []).rows == ("1", "", "2", "", "3")


def test_an_example_is_made_or_given(pointer):
    assert "round trip through 5 points" in TASK.view(pointer, None).title
    assert "through 7 points" in TASK.view(pointer, None, length=7, seed=1).title
    assert TASK.view(pointer, "0,0 1,0 0,1").matrices[0].values.shape == (4, 4)
    with pytest.raises(DataError, match="the text has 0 sets"):
        TASK.view(pointer, "")
    with pytest.raises(ConfigError, match="leave them out"):
        TASK.view(pointer, "0,0 1,0 0,1", length=3)
    with pytest.raises(ConfigError, match="tsp needs 3 or more"):
        TASK.view(pointer, None, length=2)
