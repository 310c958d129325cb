"""One update of the weights, from any number of batches on any number of processes."""

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.training.processes.processes import Processes
from regard.training.processes.sharding import full
from regard.training.settings import TrainingSettings
from regard.training.state import Batches, Sums


class Diverged(RegardError):
    """A loss, gradient or weight is not finite; the message names the step. Nothing of it has been saved."""


@runtime_checkable
class Objective(Protocol):
    """The loss of a batch as sums, never means, so that parts of a batch add up to the whole.

    Attributes:
        total: the sum of the losses in nats, a scalar with its graph.
        count: the tokens that it sums over, a scalar.
        correct: how many of them were right, a scalar.
    """

    @property
    def total(self) -> Tensor:
        """The sum of the losses, in nats."""
        ...

    @property
    def count(self) -> Tensor:
        """The number of tokens."""
        ...

    @property
    def correct(self) -> Tensor:
        """The number of tokens that were predicted right."""
        ...


class Updater:
    """Makes updates with AdamW's step on the mean gradient per token.

    The sums of all batches and processes are divided once, by all their tokens: accumulation and several processes give
    the gradient of the one big batch. Numbers leave the device once a batch (its tokens) and twice an update.

    Args:
        model: on the processes' device.
        objective: `(model, batch) -> Objective`.
        optimizer: over the model's parameters.
        batches: where items are loaded from.
        processes: those that share each batch.
        settings: `clip` and `precision`.
        sharded: the model is in parts: a process that has no row computes one all the same, since the others wait for
            its part of the weights, and gradients are summed where they arise.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[nn.Module, Any], Objective],
        optimizer: torch.optim.Optimizer,
        batches: Batches[Any],
        processes: Processes,
        settings: TrainingSettings,
        sharded: bool = False,
    ) -> None:
        self.sharded = sharded
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.batches, self.processes, self.settings = batches, processes, settings
        self._parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._exact = torch.float32 if processes.device.type == "mps" else torch.float64  # mps has no float64

    def update(self, parts: Iterable[list[int]], learning_rate: float, name: str) -> Sums:
        """Make one update; one without any token leaves the weights and the optimizer as they are.

        Args:
            parts: the item numbers of each batch that the update joins.
            learning_rate: of this update.
            name: of this update, for errors: its step and epoch.

        Returns:
            The sums over all processes.

        Raises:
            Diverged: the loss or the gradient is not finite; the weights are still those before the update.
        """
        started, worked = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad(set_to_none=True)
        sums = torch.zeros(3, dtype=self._exact, device=self.processes.device)
        for indices in parts:
            if rows := self.processes.share(indices):
                self._learn(rows, sums)
            elif self.sharded:
                self._accompany(indices[:1])
        loss, tokens, correct = self.processes.sum(sums).tolist()
        if not self.sharded:
            self.processes.sum_gradients(self._parameters)
        norm = self._apply(tokens, learning_rate, loss, name) if tokens else 0.0
        seconds, processor_seconds = time.perf_counter() - started, time.process_time() - worked
        return Sums(loss, tokens, correct, norm, 1, seconds, processor_seconds)

    def _learn(self, rows: list[int], sums: Tensor) -> None:
        outcome = self._objective(rows)
        if not outcome.count:  # nothing to learn from, and a loss of nothing may be anything
            if self.sharded:
                (0 * outcome.total).backward()
            return
        outcome.total.backward()
        sums += torch.stack([value.detach().to(sums) for value in (outcome.total, outcome.count, outcome.correct)])

    def _accompany(self, rows: list[int]) -> None:
        """Take part in what the others compute, and add nothing to it."""
        (0 * self._objective(rows).total).backward()

    def _objective(self, rows: list[int]) -> Objective:
        device = self.processes.device
        batch = self.batches.load(rows).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            return self.objective(self.model, batch)

    def _apply(self, tokens: float, learning_rate: float, loss: float, name: str) -> float:
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        norm = full(nn.utils.get_total_norm(gradients)).item() / tokens
        if not (math.isfinite(loss) and math.isfinite(norm)):
            what = "gradient" if math.isfinite(loss) else "loss"
            raise Diverged(
                f"the {what} of {name} is {norm if math.isfinite(loss) else loss}; the weights were not changed and "
                "nothing was saved of this step. Try a lower learning_rate, a longer warmup_steps, a smaller clip, or "
                "precision fp32"
            )
        # The mean by a division, which rounds once, and clipped as torch clips: a pass of its own where it clips.
        torch._foreach_div_(gradients, tokens)
        clip = self.settings.clip
        if clip is not None and norm + 1e-6 > clip:
            torch._foreach_mul_(gradients, clip / (norm + 1e-6))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        return norm
