"""The task of pointing: a set of points in, an answer made of them out (Vinyals, Fortunato & Jaitly 2015)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.points.batches import PointBatch, PointSets
from regard.data.points.problem import Answer, PointSet, RoundTrip, point_problem
from regard.data.points.settings import LEAST
from regard.data.points.tours import nearest_neighbour_tours
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.models.pointing.pointer import PointerNetwork
from regard.tasks.core.config import branch, check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import mean_loss
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Nothing, Prepared, Task
from regard.tasks.pointing.learning import from_answers, from_lengths
from regard.tasks.pointing.predictor import PointingPredictor
from regard.tasks.pointing.settings import FromLengths, PointingSettings, TestedPoints
from regard.tasks.pointing.view import pointing_view
from regard.views.view import View

_MONITORS: dict[str, Better] = {"loss": "min", "exact": "max", "coverage": "max", "length": "min"}
_TOGETHER = 250


Drawn = Prepared[Nothing, PointBatch, tuple[list[PointSet], list[Answer]]]
"""The sets of a run: those of training and those held out, with their answers."""


def _data(settings: PointingSettings, folder: Path | None, say: Callable[[str], None]) -> Drawn:
    data, problem = settings.data, point_problem(settings.data.problem)
    validation = PointSets(problem, data, settings.seed, "validation")
    sets = [validation.points(number) for number in range(data.validation)]
    taught = RoundTrip(data.starts) if isinstance(problem, RoundTrip) else problem
    return Prepared(Nothing(), PointSets(taught, data, settings.seed, "training"), (sets, validation.answered(sets)))


def _loss(settings: PointingSettings) -> Callable[[nn.Module, PointBatch], Objective]:
    learning = settings.learning
    return partial(from_lengths, draws=learning.draws) if isinstance(learning, FromLengths) else from_answers


def _metrics(settings: PointingSettings, drawn: Drawn) -> Callable[[Any], dict[str, float]]:
    """Loss a choice (nats) and what `measured` tells, over the sets that are held out, greedily answered."""
    sets, answers = drawn.held_out
    chunks = [slice(at, at + _TOGETHER) for at in range(0, len(sets), _TOGETHER)]

    def metrics(model: PointerNetwork) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            loss = mean_loss(from_answers(model, PointBatch.of(sets[one], answers[one]).to(device)) for one in chunks)
        pointer = PointingPredictor(model, Nothing(), settings)
        return {"loss": loss, **measured(pointer, sets, answers, _said(pointer, sets, 1))}

    return metrics


def _said(pointer: PointingPredictor, sets: list[PointSet], beam: int) -> list[Answer]:
    together = max(1, _TOGETHER // beam)
    chunks = (sets[at : at + together] for at in range(0, len(sets), together))
    return [one.answer for chunk in chunks for one in pointer.choose(chunk, beam)]


def measured(
    pointer: PointingPredictor, sets: list[PointSet], answers: list[Answer], said: list[Answer]
) -> dict[str, float]:
    """How good answers are.

    Exact is the share of those as good as the right one. Coverage is the mean share of a right answer that was given
    (see each problem's `covered`). Length is the mean length of the tours over that of the right ones.
    """
    problem = pointer.problem
    rows = list(zip(sets, said, answers, strict=True))
    told = {"exact": sum(problem.is_correct(*row) for row in rows) / len(rows)}
    if "coverage" in problem.measures:
        told["coverage"] = sum(problem.coverage(*row) for row in rows) / len(rows)
    if isinstance(problem, RoundTrip):
        walked, shortest = (
            sum(problem.length(points, tour) for points, tour in zip(sets, tours, strict=True))
            for tours in (said, answers)
        )
        told["length"] = walked / shortest
    return told


def _evaluate(pointer: PointingPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    tested, data = check(TestedPoints, test), pointer.settings.data
    sizes = list(range(data.shortest, data.longest + 1)) if tested.sizes is None else tested.sizes
    if min(sizes) < LEAST[data.problem]:
        raise ConfigError(f"sizes: {data.problem} begins with sets of {LEAST[data.problem]}; given {min(sizes)}")
    rows: list[dict[str, Any]] = []
    near: list[float] = []
    for size in sizes:
        sets, answers = pointer.held_out(tested.sets, tested.seed, size)
        told = measured(pointer, sets, answers, _said(pointer, sets, tested.beam))
        rows.append({"points": str(size), "sets": tested.sets, **told})
        if isinstance(pointer.problem, RoundTrip):
            tours = [nearest_neighbour_tours(points[None])[0].tolist() for points in sets]
            near.append(measured(pointer, sets, answers, tours)["length"])
    names = [name for name in rows[0] if name in PointingSettings.measures]
    measures = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    for name, size in (("exact_shortest", data.shortest), ("exact_longest", data.longest)):
        if size in sizes:
            measures[name] = rows[sizes.index(size)]["exact"]
    return Evaluation(
        items=tested.sets * len(rows),
        unit="sets",
        measures=measures,
        baselines={"nearest_neighbour": sum(near) / len(near)} if near else {},
        baselined="length" if near else "",
        by="points",
        lengths=rows,
    )


def _view(
    pointer: PointingPredictor,
    text: str | None,
    *,
    length: int | None = None,
    seed: int | None = None,
    language: str = "en",
) -> View:
    if text is not None:
        if length is not None or seed is not None:
            raise ConfigError("--length and --seed are of an example that is made; leave them out beside points")
        return pointing_view(pointer.problem, pointer.one(text), language)
    data = pointer.settings.data
    size = data.longest if length is None else length
    if size < LEAST[data.problem]:
        raise ConfigError(f"--length: {data.problem} needs {LEAST[data.problem]} or more; given {size}")
    [points], _ = pointer.held_out(1, seed or 0, size)
    return pointing_view(pointer.problem, pointer.choose([points])[0], language)


def _examples(pointer: PointingPredictor, evaluation: Evaluation) -> View:
    return _view(pointer, None)


def _problems(tree: dict[str, Any]) -> list[str]:
    training, data, learning = (branch(tree, name) for name in ("training", "data", "learning"))
    name, monitor = data.get("problem", "hull"), training.get("monitor")
    wrong = []
    if training.get("smoothing"):
        wrong.append("training.smoothing: some points may not be chosen at all, so leave it 0")
    if learning.get("by") == "lengths" and name != "tsp":
        wrong.append(f"learning.by: lengths are of tours, and {name} has none; learn from answers")
    if monitor == "coverage" and name == "tsp" or monitor == "length" and name != "tsp":
        wrong.append(f"training.monitor: {name} has no {monitor}; watch loss or exact")
    return wrong


TASK = Task(
    settings=PointingSettings,
    data=_data,
    build=PointingPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=PointingPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
    examples=_examples,
    monitors=_MONITORS,
)
