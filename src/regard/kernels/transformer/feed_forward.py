"""Two linear layers with GELU between them, with a hand-written backward: torch's numbers, for training on a CPU.

GELU and its slope are made in one pass, where x is at hand, and the slope takes the place of x: going back costs one
product a number. torch's own makes x's normal density and distribution anew. The loop is `step.cpp`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.fresh_views import fresh_views
from regard.kernels.autograd.plain import is_plain, is_plain_tensor
from regard.kernels.transformer import loops

_LEAST = 2**14  # numbers between the layers from which on it is faster


def serves(x: Tensor, hidden: int, *weights: Tensor | None) -> bool:
    """Whether these gradients serve a call: a plain one with gradients, in float32 on a CPU with a compiler.

    Args:
        x: what comes in.
        hidden: the width between the layers.
        *weights: of the layers.
    """
    given = [tensor for tensor in (x, *weights) if tensor is not None]
    if x.device.type != "cpu" or not torch.is_grad_enabled() or any(one.dtype is not torch.float32 for one in given):
        return False
    if not is_plain(x) or not all(map(is_plain_tensor, given)) or not any(one.requires_grad for one in given):
        return False
    numbers = x.shape[:-1].numel() * hidden
    return numbers >= _LEAST and loops.LIBRARY.serves(torch.float32)


def gelu_network(
    x: Float[Tensor, "*lead dim"],
    widening: Float[Tensor, "hidden dim"],
    widening_bias: Float[Tensor, " hidden"] | None,
    narrowing: Float[Tensor, "dim hidden"],
    narrowing_bias: Float[Tensor, " dim"] | None,
) -> Float[Tensor, "*lead dim"]:
    """`GELU(x W_1ᵀ + b_1) W_2ᵀ + b_2`, GELU in its exact form (Hendrycks & Gimpel 2016), to 4e-7 of the hidden
    units.

    Derivatives of derivatives are those of torch's own operations.
    """
    out: Tensor = _Network.apply(x, widening, widening_bias, narrowing, narrowing_bias)
    return out


def _formula(x: Tensor, one: Tensor, bias: Tensor | None, other: Tensor, other_bias: Tensor | None) -> Tensor:
    return F.linear(F.gelu(F.linear(x, one, bias)), other, other_bias)


class _Network(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, one: Tensor, bias: Tensor | None, other: Tensor, other_bias: Any) -> Tensor:
        slope = F.linear(x, one, bias)  # its input so far
        hidden = torch.empty_like(slope)
        loops.gelu_and_slope(size=slope.numel(), x=slope, y=hidden)
        ctx.save_for_backward(x, one, bias, other, other_bias, hidden, slope)
        return F.linear(hidden, other, other_bias)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        *given, hidden, slope = ctx.saved_tensors
        x, one, _, other, _ = given
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # somebody will differentiate these gradients
            given = fresh_views(*given)
            needing = [tensor for tensor, needed in zip(given, wanted, strict=True) if needed]
            found = iter(torch.autograd.grad(_formula(*given), needing, upstream, create_graph=True))
            return tuple(next(found) if needed else None for needed in wanted)
        grad_output, rows, hidden, slope = (one.reshape(-1, one.shape[-1]) for one in (upstream, x, hidden, slope))
        grad_hidden = grad_output.mm(other).mul_(slope) if any(wanted[:3]) else grad_output
        return (
            grad_hidden.mm(one).view(x.shape) if wanted[0] else None,
            grad_hidden.t().mm(rows) if wanted[1] else None,
            grad_hidden.sum(0) if wanted[2] else None,
            grad_output.t().mm(hidden) if wanted[3] else None,
            grad_output.sum(0) if wanted[4] else None,
        )
