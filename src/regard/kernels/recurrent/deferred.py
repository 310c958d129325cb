"""Products of a loop, whose gradients to what serves at each step are one product over all steps, made at the last.

A weight that serves at each step of a loop gets a gradient from each: a product of few rows, a matrix as large as the
weight written and added to the others. So do the values that attention reads at each step. Here a step leaves its
inputs and what came back for its outputs.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.plain import is_plain, is_plain_tensor


def linear_of_loop(like: Tensor) -> Callable[..., Tensor]:
    """`Deferred().linear` for a plain call with gradients on a CPU, where it is faster; `F.linear` for others.

    Args:
        like: one of the loop's inputs.
    """
    plain = torch.is_grad_enabled() and like.device.type == "cpu" and is_plain(like)
    return Deferred().linear if plain else F.linear


def expectation_of_loop(linear: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The `expectation` of the loop whose products `linear` makes; None where it is not that of a `Deferred`."""
    loop = getattr(linear, "__self__", None)
    return loop.expectation if isinstance(loop, Deferred) else None


class Deferred:
    """`linear` as `F.linear`, and `expectation` as `torch.bmm`, for the steps of one loop.

    Weights and values must stay as they are until the backward pass.
    """

    def __init__(self) -> None:
        self._used: dict[tuple[int, int], tuple[_Used, Tensor]] = {}

    def linear(
        self,
        x: Float[Tensor, "rows inputs"],
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None = None,
    ) -> Float[Tensor, "rows outputs"]:
        """`x Wᵀ + b`."""
        if not weight.requires_grad or not (type(x) is Tensor or is_plain_tensor(x)):
            return F.linear(x, weight, bias)
        key = (id(weight), id(bias))
        if key not in self._used:
            if not is_plain_tensor(weight) or not (bias is None or is_plain_tensor(bias)):
                return F.linear(x, weight, bias)
            used = _Used(weight, bias)
            self._used[key] = used, _Gathered.apply(used, weight, bias)
        used, sentinel = self._used[key]
        out: Tensor = _Step.apply(used, x, sentinel)
        return out

    def expectation(
        self, weights: Float[Tensor, "batch queries keys"], value: Float[Tensor, "batch keys dim"]
    ) -> Float[Tensor, "batch queries dim"]:
        """`weights value`."""
        if not value.requires_grad or not (type(weights) is Tensor or is_plain_tensor(weights)):
            return weights.bmm(value)
        key = (id(value), id(None))
        if key not in self._used:
            if not is_plain_tensor(value):
                return weights.bmm(value)
            used = _Used(value, None)
            self._used[key] = used, _GatheredValues.apply(used, value)
        used, sentinel = self._used[key]
        out: Tensor = _Read.apply(used, weights, sentinel)
        return out


class _Used:
    """One weight, and what its steps leave: their inputs, and the gradients of their outputs."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias  # held: of one that is gone another could have the number
        self.version = weight._version
        self._read: list[Tensor] = []
        self._grad_outputs: list[Tensor] = []
        self._task = -1

    def leave(self, x: Tensor, grad_output: Tensor) -> None:
        """A step's input and the gradient of its output."""
        task = torch._C._current_graph_task_id()
        if task != self._task:  # a backward pass that wanted no weight's gradient, or failed, has left some
            self._task, self._read, self._grad_outputs = task, [], []
        self._read.append(x)
        self._grad_outputs.append(grad_output)

    def take(self, dim: int) -> tuple[Tensor, Tensor] | None:
        """All that the steps of this backward pass left, along an axis; None where nothing came back to any."""
        read, grad_output, task = self._read, self._grad_outputs, self._task
        self._task, self._read, self._grad_outputs = -1, [], []
        if task != torch._C._current_graph_task_id():
            return None
        return (read[0], grad_output[0]) if len(read) == 1 else (torch.cat(read, dim), torch.cat(grad_output, dim))

    def check(self) -> None:
        """Refuse gradients of tensors that changed since the forward pass."""
        if self.weight._version != self.version:
            raise RuntimeError("a weight was changed in place before the gradients of a loop that it served were made")


class _Gathered(torch.autograd.Function):
    """A sentinel that all steps need: so its backward pass comes after all of theirs, and makes the gradients."""

    @staticmethod
    def forward(ctx: Any, used: _Used, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.used = used
        return weight.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        left = ctx.used.take(0)
        if left is None:
            return None, None, None
        read, grad_output = left
        return None, grad_output.t().mm(read), grad_output.sum(0) if ctx.needs_input_grad[2] else None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, used: _Used, x: Tensor, sentinel: Tensor) -> Tensor:
        ctx.used = used
        ctx.save_for_backward(x)
        return F.linear(x, used.weight, used.bias)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, Tensor | None, Tensor]:
        used: _Used = ctx.used
        used.check()
        (x,) = ctx.saved_tensors
        used.leave(x, grad_output)
        to_x = grad_output.mm(used.weight) if ctx.needs_input_grad[1] else None
        return None, to_x, grad_output.new_zeros(())


class _GatheredValues(torch.autograd.Function):
    """The sentinel of values, as `_Gathered` is that of a weight."""

    @staticmethod
    def forward(ctx: Any, used: _Used, value: Tensor) -> Tensor:
        ctx.used = used
        return value.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[None, Tensor | None]:
        left = ctx.used.take(1)
        if left is None:
            return None, None
        weights, grad_output = left
        return None, weights.transpose(1, 2).bmm(grad_output)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, used: _Used, weights: Tensor, sentinel: Tensor) -> Tensor:
        ctx.used = used
        ctx.save_for_backward(weights)
        return weights.bmm(used.weight)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, Tensor | None, Tensor]:
        used: _Used = ctx.used
        used.check()
        (weights,) = ctx.saved_tensors
        used.leave(weights, grad_output)
        to_weights = grad_output.bmm(used.weight.transpose(1, 2)) if ctx.needs_input_grad[1] else None
        return None, to_weights, grad_output.new_zeros(())
