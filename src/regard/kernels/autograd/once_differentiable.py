"""Hand-written gradients are made without a graph of their own: a second derivative is refused, never left out."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.unbatch import Unpacked

Backward = Callable[..., Any]


def once_differentiable(what: str) -> Callable[[Backward], Backward]:
    """For the `backward` of a `torch.autograd.Function`: it is run without a graph, and its own derivative is an error.

    torch's `once_differentiable` refuses only where the incoming gradient needs a gradient. Mostly that is the gradient
    of a loss, which needs none: a second derivative would then be silently without all that passes here.

    The function must have saved each input that may need a gradient, its `graph_anchor`, or one of its outputs: by
    these torch finds the refusal, whatever the second derivative is taken of.

    Args:
        what: the function in words, and after a semicolon what has second derivatives, where something has.
    """

    def decorate(backward: Backward) -> Backward:
        @functools.wraps(backward)
        def wrapped(ctx: Any, *upstream: Tensor | None) -> Any:
            if not torch.is_grad_enabled():
                return backward(ctx, *upstream)
            unpacked = Unpacked(ctx)
            with torch.no_grad():
                gradients = backward(unpacked, *upstream)
            each = gradients if isinstance(gradients, tuple) else (gradients,)
            made = [one for one in each if one is not None]
            known = iter(_Refusing.apply(what, len(made), *made, *upstream, *unpacked.saved_tensors) if made else ())
            return tuple(None if one is None else next(known) for one in each)

        return wrapped

    return decorate


def graph_anchor(*given: Float[Tensor, " _ *_"]) -> Float[Tensor, " 0"]:
    """Not one of their numbers: it holds no memory, and still depends on them. Made before the function is applied."""
    return torch.cat([one[:0].flatten() for one in given])


class _Refusing(torch.autograd.Function):
    @staticmethod
    def forward(what: str, count: int, *given: Any) -> tuple[Tensor, ...]:
        return given[:count]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.what = inputs[0]

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        name, _, other = ctx.what.partition("; ")
        raise RuntimeError(f"{name} has no second derivatives" + (f"; {other}" if other else ""))
