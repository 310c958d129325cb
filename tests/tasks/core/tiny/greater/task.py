"""A task of a few lines that nothing in regard knows: which of two numbers is the greater."""

from pathlib import Path
from typing import Any

import torch
from regard.tasks.greater.predictor import GreaterPredictor
from regard.tasks.greater.settings import GreaterSettings, GreaterTest
from torch import Tensor, nn

from regard.layers.objective import Objective, objective
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.task import Nothing, Prepared, Task
from regard.views.view import Matrix, View


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


def draw(count: int, seed: int) -> Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))


Numbers = Prepared[Nothing, Batch, Tensor]


def _data(settings: GreaterSettings, saved: Path | None, say: Any) -> Numbers:
    return Prepared(Nothing(), Batches(draw(settings.data.count, settings.seed)), draw(7, settings.seed + 1))


def _loss(settings: GreaterSettings) -> Any:
    def loss(model: nn.Module, batch: Batch) -> Objective:
        return objective(model(batch.pairs), batch.greater)

    return loss


def _right(model: nn.Module, pairs: Tensor) -> float:
    batch = Batch(pairs)
    return float((model(batch.pairs).argmax(-1) == batch.greater).double().mean())


def _metrics(settings: GreaterSettings, prepared: Numbers) -> Any:
    return lambda model: {"right": _right(model, prepared.held_out)}


def _evaluate(loaded: GreaterPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    model, wanted = loaded.model, check(GreaterTest, test)
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


def _view(loaded: GreaterPredictor, text: str | None, *, language: str = "en", length: int = 3) -> View:
    pairs = draw(length, 0) if text is None else torch.tensor([[float(one) for one in text.split()]])
    values = loaded.model(pairs).softmax(-1).detach()
    return View("lines", "greater", [Matrix(values, [str(place) for place in range(len(pairs))], ["1st", "2nd"])])


TASK = Task(
    settings=GreaterSettings,
    data=_data,
    build=GreaterPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=GreaterPredictor.load,
    view=_view,
    problems=lambda tree: [],
    evaluate=_evaluate,
    examples=lambda loaded, evaluation: _view(loaded, None),
)
