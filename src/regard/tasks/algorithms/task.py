"""The task of algorithms: bits in, what the algorithm makes of them out, and how long sequences may grow."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.algorithms.problem import problem
from regard.data.algorithms.sequences import SequenceBatch, Sequences
from regard.errors import ConfigError, TooLong
from regard.layers.objective import Objective, bits_objective
from regard.metrics.bits import BitErrors
from regard.models.memory.sequences import build
from regard.tasks.algorithms.predictor import Solver, bit_errors, load_solver
from regard.tasks.algorithms.settings import SIXFOLD, TWICE, AlgorithmSettings, TestedSequences
from regard.tasks.algorithms.view import memory_view
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Task
from regard.views.view import View

_MONITORS: dict[str, Better] = {"loss": "min", "wrong_bits": "min", "exact": "max"}


@dataclass(frozen=True)
class Drawn:
    """The sequences of a run: those of training and those held out, both of the lengths of training."""

    batches: Sequences
    validation: list[SequenceBatch]

    def save(self, folder: Path) -> None:
        """Nothing: the settings and a number make a sequence."""


def _data(settings: AlgorithmSettings, folder: Path | None, say: Callable[[str], None]) -> Drawn:
    made = problem(settings.data)
    held_out = Sequences(made, settings.data, settings.seed, "validation").held_out(settings.data.validation)
    return Drawn(Sequences(made, settings.data, settings.seed, "training"), held_out)


def _model(settings: AlgorithmSettings, drawn: Drawn) -> nn.Module:
    made = drawn.batches.problem
    model: Any = build(settings.model, made.inputs, made.outputs)
    return model


def _loss(settings: AlgorithmSettings) -> Callable[[nn.Module, SequenceBatch], Objective]:
    def loss(model: nn.Module, batch: SequenceBatch) -> Objective:
        return bits_objective(model(batch.inputs), batch.answers, batch.answer_steps)

    return loss


def _metrics(settings: AlgorithmSettings, drawn: Drawn) -> Callable[[Any], dict[str, float]]:
    """Loss a bit (nats), wrong bits a sequence and exact sequences, all held out and of the lengths of training."""

    def metrics(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            answered = [(batch, model(batch.inputs.to(device)).cpu()) for batch in drawn.validation]
        each = [bits_objective(logits, batch.answers, batch.answer_steps) for batch, logits in answered]
        nats, bits = sum(float(one.total) for one in each), sum(int(one.count) for one in each)
        errors = bit_errors(answered)
        return {"loss": nats / bits, "wrong_bits": errors.mean, "exact": errors.exact}

    return metrics


def _evaluate(solver: Solver, run: Path, test: dict[str, Any]) -> Evaluation:
    tested, data = check(TestedSequences, test), solver.settings.data
    longer = [TWICE * data.longest, SIXFOLD * data.longest] if tested.lengths is None else tested.lengths
    trained = solver.errors(solver.held_out(tested.sequences, tested.seed))
    rows = {f"{data.shortest}–{data.longest}": _row(trained, tested.sequences)}
    measures, stopped = {"wrong_bits": trained.mean, "exact": trained.exact}, ""
    for length in longer:
        try:
            errors = solver.errors(solver.held_out(tested.sequences, tested.seed, length))
        except TooLong as error:  # which is what there is to be told of that length
            stopped = stopped or f"{length}: {error}"
            rows[str(length)] = _row(None, tested.sequences)
            continue
        rows[str(length)] = _row(errors, tested.sequences)
        for name, times in (("twice", TWICE), ("sixfold", SIXFOLD)):
            if length == times * data.longest:
                measures[f"wrong_bits_{name}"] = errors.mean
                measures[f"median_{name}"], measures[f"exact_{name}"] = errors.median, errors.exact
    return Evaluation(
        items=tested.sequences * sum(row["exact"] is not None for row in rows.values()),
        unit="sequences",
        measures=measures,
        baselines={"chance": trained.chance},
        baselined="wrong_bits",
        by="length",
        lengths=[{"length": name, **row} for name, row in rows.items()],
        notes=[f"nothing longer could be read. Length {stopped}"] if stopped else [],
        stopped=stopped,
    )


def _row(errors: BitErrors | None, sequences: int) -> dict[str, float | None]:
    """One length of the table; None where the model cannot read so much."""
    measured = {name: getattr(errors, name, None) for name in ("mean", "median", "accuracy", "exact", "chance")}
    return {"sequences": sequences, "wrong_bits": measured.pop("mean"), **measured}


def _view(
    solver: Solver, text: str | None, *, length: int | None = None, seed: int | None = None, language: str = "en"
) -> View:
    if text is not None and (length is not None or seed is not None):
        raise ConfigError("--length and --seed are of an example that is made; leave them out beside a sequence")
    if text is not None:
        return memory_view(solver, solver.read(text), language)
    data = solver.settings.data
    drawn = Sequences(solver.problem, data, seed or 0, "test")
    return memory_view(solver, drawn.item(0, data.longest if length is None else length), language)


def _examples(solver: Solver, evaluation: Evaluation) -> View:
    data = solver.settings.data
    return _view(solver, None, length=min(data.longest, max(data.shortest, 8)))


def _problems(tree: dict[str, Any]) -> list[str]:
    training, data, model = (_part(tree, name) for name in ("training", "data", "model"))
    wrong = []
    if training.get("smoothing"):
        wrong.append("training.smoothing: it is of choices among words; bits have none, so leave it 0")
    # Of the other problems the last input is what asks.
    if (data.get("problem"), model.get("kind"), str(model.get("mark", -1))) == ("repeat_copy", "fixed", "-1"):
        wrong.append(
            "model.mark: the last input of repeat_copy is how many times; the one before it asks: model.mark=-2"
        )
    return wrong


def _part(tree: dict[str, Any], name: str) -> dict[str, Any]:
    part = tree.get(name)
    return part if isinstance(part, dict) else {}


TASK = Task(
    name="algorithms",
    verb="solve",
    data=_data,
    model=_model,
    loss=_loss,
    metrics=_metrics,
    predict=load_solver,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
    measures=AlgorithmSettings.measures,
    examples=_examples,
    monitors=_MONITORS,
)
