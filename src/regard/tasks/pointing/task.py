"""The task of pointing: a set of points in, an answer made of them out (Vinyals, Fortunato & Jaitly 2015)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from regard.data.points.batches import PointBatch
from regard.data.points.settings import LEAST
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.models.pointing.pointer import PointerNetwork
from regard.tasks.core.config import branch
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import mean_loss
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Nothing, Task
from regard.tasks.pointing.data import Drawn, draw_sets
from regard.tasks.pointing.evaluation import TOGETHER, answers_of, evaluate_run, measured
from regard.tasks.pointing.learning import from_answers, from_lengths
from regard.tasks.pointing.predictor import PointingPredictor
from regard.tasks.pointing.settings import FromLengths, PointingSettings
from regard.tasks.pointing.view import pointing_view
from regard.views.view import View

_MONITORS: dict[str, Better] = {"loss": "min", "exact": "max", "coverage": "max", "length": "min"}


def _loss(settings: PointingSettings) -> Callable[[nn.Module, PointBatch], Objective]:
    learning = settings.learning
    return partial(from_lengths, draws=learning.draws) if isinstance(learning, FromLengths) else from_answers


def _metrics(settings: PointingSettings, drawn: Drawn) -> Callable[[Any], dict[str, float]]:
    """Loss per choice (nats) and the measures of `measured`, over the held-out sets, answered greedily."""
    sets, answers = drawn.held_out
    chunks = [slice(at, at + TOGETHER) for at in range(0, len(sets), TOGETHER)]

    def metrics(model: PointerNetwork) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            loss = mean_loss(from_answers(model, PointBatch.of(sets[one], answers[one]).to(device)) for one in chunks)
        pointer = PointingPredictor(model, Nothing(), settings)
        return {"loss": loss, **measured(pointer, sets, answers, answers_of(pointer, sets, 1))}

    return metrics


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
            raise ConfigError("--length and --seed choose a generated example; leave them out beside points")
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
        wrong.append(f"learning.by: only tours have lengths, and {name} has none; learn from answers")
    if monitor == "coverage" and name == "tsp" or monitor == "length" and name != "tsp":
        wrong.append(f"training.monitor: {name} has no {monitor}; watch loss or exact")
    return wrong


TASK = Task(
    settings=PointingSettings,
    data=draw_sets,
    build=PointingPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=PointingPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
    examples=_examples,
    monitors=_MONITORS,
)
