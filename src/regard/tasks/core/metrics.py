"""What validations measure: means of summed objectives, and the metrics of models that predict labels."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from regard.errors import DataError
from regard.layers.objective import Objective
from regard.tasks.core.settings import RunSettings
from regard.training.state import Batches


def loss_of(settings: RunSettings) -> Callable[[nn.Module, Any], Objective]:
    """What training minimizes: the model's own `loss(batch, smoothing)`."""
    smoothing = settings.training.smoothing

    def loss(model: Any, batch: Any) -> Objective:
        objective: Objective = model.loss(batch, smoothing)
        return objective

    return loss


def metrics_of(held_out: Batches[Any]) -> Callable[[Any], dict[str, float]]:
    """Accuracy and loss per label (nats) over what is held out for validation."""
    plan = held_out.plan(0)

    def metrics(model: Any) -> dict[str, float]:
        device = next(model.parameters()).device
        return per_label(model.loss(held_out.load(indices).to(device)) for indices in plan)

    return metrics


def mean_loss(objectives: Iterable[Objective]) -> float:
    """The mean of what was counted, over all objectives together; 0 if nothing was."""
    each = list(objectives)
    return sum(float(one.total) for one in each) / max(1, sum(int(one.count) for one in each))


def per_label(objectives: Iterable[Objective]) -> dict[str, float]:
    """Accuracy and loss per label.

    Raises:
        DataError: nothing is held out: a loss of 0 would make any weights the best.
    """
    each = list(objectives)
    count = sum(int(one.count) for one in each)
    if not count:
        raise DataError("nothing that has an answer is held out to validate on; hold out more, or give more data")
    return {"accuracy": sum(int(one.correct) for one in each) / count, "loss": mean_loss(each)}
