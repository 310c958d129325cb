"""The task of algorithms: bits in, what the algorithm makes of them out, and how long sequences may grow."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.data.algorithms.sequences import SequenceBatch, Sequences
from regard.errors import ConfigError
from regard.layers.objective import Objective, bits_objective
from regard.tasks.algorithms.data import Drawn, draw_sequences
from regard.tasks.algorithms.evaluation import evaluate_run
from regard.tasks.algorithms.predictor import AlgorithmsPredictor, bit_errors
from regard.tasks.algorithms.settings import AlgorithmSettings
from regard.tasks.algorithms.view import memory_view
from regard.tasks.core.config import branch
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import mean_loss
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Task
from regard.views.view import View

_MONITORS: dict[str, Better] = {"loss": "min", "wrong_bits": "min", "exact": "max"}


def _loss(settings: AlgorithmSettings) -> Callable[[nn.Module, SequenceBatch], Objective]:
    def loss(model: nn.Module, batch: SequenceBatch) -> Objective:
        return bits_objective(model(batch.inputs), batch.answers, batch.answer_steps)

    return loss


def _metrics(settings: AlgorithmSettings, drawn: Drawn) -> Callable[[Any], dict[str, float]]:
    """Loss per bit (nats), wrong bits per sequence and exact sequences, on held-out sequences of training's lengths."""

    def metrics(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            answered = [(batch, model(batch.inputs.to(device)).cpu()) for batch in drawn.held_out]
        loss = mean_loss(bits_objective(logits, batch.answers, batch.answer_steps) for batch, logits in answered)
        errors = bit_errors(answered)
        return {"loss": loss, "wrong_bits": errors.mean, "exact": errors.exact}

    return metrics


def _view(
    solver: AlgorithmsPredictor,
    text: str | None,
    *,
    length: int | None = None,
    seed: int | None = None,
    language: str = "en",
) -> View:
    if text is not None and (length is not None or seed is not None):
        raise ConfigError("--length and --seed choose a generated example; leave them out beside a sequence")
    if text is not None:
        return memory_view(solver, solver.question(text), language)
    data = solver.settings.data
    drawn = Sequences(solver.problem, data, seed or 0, "test")
    return memory_view(solver, drawn.item(0, data.longest if length is None else length), language)


def _examples(solver: AlgorithmsPredictor, evaluation: Evaluation) -> View:
    data = solver.settings.data
    return _view(solver, None, length=min(data.longest, max(data.shortest, 8)))


def _problems(tree: dict[str, Any]) -> list[str]:
    training, data, model = (branch(tree, name) for name in ("training", "data", "model"))
    wrong = []
    if training.get("smoothing"):
        wrong.append("training.smoothing: it smooths choices among words, and bits are none, so leave it 0")
    # In the other problems the last input marks the question.
    if (data.get("problem"), model.get("kind"), str(model.get("mark", -1))) == ("repeat_copy", "fixed", "-1"):
        wrong.append(
            "model.mark: the last input of repeat_copy is how many times; the mark stands before it: model.mark=-2"
        )
    return wrong


TASK = Task(
    settings=AlgorithmSettings,
    data=draw_sequences,
    build=AlgorithmsPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=AlgorithmsPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
    examples=_examples,
    monitors=_MONITORS,
)
