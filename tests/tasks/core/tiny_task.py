"""A task of a few lines that nothing in regard knows: which of two numbers is the greater."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.objective import Objective, objective
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.runs import config_of
from regard.tasks.core.task import Task
from regard.training.run.checkpoint import load_weights
from regard.training.run.run import RunFolder
from regard.views.view import Matrix, View
from tests.tasks.core.tiny_task_settings import GreaterSettings, GreaterTest


class Batch:
    def __init__(self, pairs: Tensor) -> None:
        self.pairs, self.greater = pairs, (pairs[:, 1] > pairs[:, 0]).long()

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.pairs.to(device))


class Batches:
    def __init__(self, pairs: Tensor) -> None:
        self.pairs = pairs

    def plan(self, epoch: int) -> list[list[int]]:
        return [list(range(start, min(start + 5, len(self.pairs)))) for start in range(0, len(self.pairs), 5)]

    def load(self, indices: list[int]) -> Batch:
        return Batch(self.pairs[indices])


class Prepared:
    def __init__(self, pairs: Tensor) -> None:
        self.batches = Batches(pairs)

    def save(self, folder: Path) -> None:
        """Nothing is needed besides the weights."""


def draw(count: int, seed: int) -> Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))


def _data(settings: GreaterSettings, saved: Path | None, say: Any) -> Prepared:
    return Prepared(draw(settings.data.count, settings.seed))


def _model(settings: GreaterSettings, prepared: Prepared) -> nn.Module:
    if settings.model.kind == "flat":
        return nn.Linear(2, 2, bias=settings.model.bias)
    return nn.Sequential(nn.Linear(2, settings.model.width), nn.Tanh(), nn.Linear(settings.model.width, 2))


def _loss(settings: GreaterSettings) -> Any:
    def loss(model: nn.Module, batch: Batch) -> Objective:
        return objective(model(batch.pairs), batch.greater)

    return loss


def _right(model: nn.Module, pairs: Tensor) -> float:
    batch = Batch(pairs)
    return float((model(batch.pairs).argmax(-1) == batch.greater).double().mean())


def _metrics(settings: GreaterSettings, prepared: Prepared) -> Any:
    return lambda model: {"right": _right(model, draw(7, settings.seed + 1))}


def _predict(folder: Path) -> nn.Module:
    model = _model(check(GreaterSettings, config_of(folder)), Prepared(draw(1, 0)))
    load_weights(model, RunFolder(folder).weights)
    return model


def _evaluate(model: nn.Module, run: Path, test: dict[str, Any]) -> Evaluation:
    wanted = check(GreaterTest, test)
    pairs = draw(wanted.count, wanted.seed)
    rows = [
        {"sign": sign, "numbers": len(some), "right": _right(model, some)}
        for sign, some in (("−", pairs[pairs[:, 0] < 0]), ("+", pairs[pairs[:, 0] >= 0]))
    ]
    measures = {"right": _right(model, pairs)}
    return Evaluation(
        items=len(pairs),
        unit="numbers",
        measures=measures,
        by="sign",
        lengths=rows,
        baselines={"chance": 0.5},
        baselined="right",
        notes=["of the test"],
    )


def _view(model: nn.Module, text: str | None, *, language: str = "en", length: int = 3) -> View:
    pairs = draw(length, 0) if text is None else torch.tensor([[float(one) for one in text.split()]])
    values = model(pairs).softmax(-1).detach()
    return View("lines", "greater", [Matrix(values, [str(place) for place in range(len(pairs))], ["1st", "2nd"])])


TASK = Task(
    name="greater",
    verb="compare",
    data=_data,
    model=_model,
    loss=_loss,
    metrics=_metrics,
    predict=_predict,
    view=_view,
    problems=lambda tree: [],
    evaluate=_evaluate,
    measures=GreaterSettings.measures,
    examples=lambda model, evaluation: _view(model, None),
)
