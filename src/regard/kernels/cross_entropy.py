"""Smoothed cross-entropy with its gradient and its right choices in one compiled loop, for logits that fill memory.

torch's calls go through all logits some ten times; the loop (`cross_entropy.cpp`) reads them once and writes gradients.
"""

import ctypes
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.kernels import compiler
from regard.kernels.calls import is_plain
from regard.kernels.once import none_of

_NAME = "cross_entropy"
_LEAST = 2**12  # logits from which on it is faster


def serves(logits: Tensor, targets: Tensor) -> bool:
    """Whether the loop takes these logits: float32 on a CPU, a plain call, where it could be built."""
    if logits.device.type != "cpu" or logits.dtype is not torch.float32 or logits.numel() < _LEAST:
        return False
    if type(logits) not in (Tensor, nn.Parameter) or type(targets) is not Tensor or targets.device.type != "cpu":
        return False
    return logits.ndim == 2 and is_plain(logits) and compiler.library(_NAME) is not None


def cross_entropy(
    logits: Float[Tensor, "tokens choices"], targets: Int[Tensor, " tokens"], smoothing: float, ignored: int
) -> tuple[Float[Tensor, ""], Bool[Tensor, " tokens"]]:
    """The summed loss, see `layers.objective`, and for which rows the target was the first of the largest logits.

    Can be differentiated once, and refuses to be twice. A sum of a row's exponentials is taken in float32, by as many
    parts as a vector has.

    Raises:
        IndexError: a target is none of the choices.
        ShapeError: there is not one target a row.
    """
    if targets.shape != logits.shape[:1]:
        raise ShapeError(
            f"logits have shape {tuple(logits.shape)}, targets {tuple(targets.shape)}: one a row is needed"
        )
    total, right = _CrossEntropy.apply(logits, none_of(logits), targets, smoothing, ignored)
    return total, right


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, none: Tensor, targets: Tensor, smoothing: float, ignored: int
    ) -> tuple[Tensor, Tensor]:
        rows, choices = logits.shape
        outside = (targets != ignored) & ((targets < 0) | (targets >= choices))
        if bool(outside.any()):
            raise IndexError(f"a target is {int(targets[outside][0])}, and the choices are 0 to {choices - 1}")
        logits, targets = logits.contiguous(), targets.contiguous().long()
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        losses, right = logits.new_empty(rows), logits.new_empty(rows, dtype=torch.bool)
        library = compiler.library(_NAME)
        assert library is not None
        library.cross_entropy(
            *map(ctypes.c_int64, (rows, choices, torch.get_num_threads())),
            *(ctypes.c_void_p(tensor.data_ptr()) for tensor in (logits, targets)),
            ctypes.c_int64(ignored),
            ctypes.c_float(smoothing),
            *(None if one is None else ctypes.c_void_p(one.data_ptr()) for one in (gradient, losses, right)),
        )
        ctx.save_for_backward(gradient, none)
        ctx.mark_non_differentiable(right)
        return losses.sum(), right

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor, None, None, None, None]:
        gradient, none = ctx.saved_tensors
        return times_upstream(gradient, none, upstream), None, None, None, None


def times_upstream(
    gradient: Float[Tensor, "tokens choices"], none: Float[Tensor, " 0"], upstream: Float[Tensor, ""]
) -> Float[Tensor, "tokens choices"]:
    """What comes back to the logits, from a gradient that was made with the loss.

    Its own derivative would need the logits, which nobody keeps: so it refuses to be differentiated.

    Args:
        gradient: of the loss.
        none: what `none_of` gives of the logits.
        upstream: what comes back to the loss.
    """
    if torch.is_grad_enabled():
        made: Tensor = _Slope.apply(gradient, none, upstream)
        return made
    if torch._C._functorch.is_legacy_batchedtensor(upstream):  # many gradients at once: each may be another number
        return gradient * upstream.to(gradient.dtype)
    # Mostly the loss itself is differentiated, and all logits need not be multiplied by 1.
    return gradient if upstream == 1 else gradient * upstream.to(gradient.dtype)


class _Slope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, none: Tensor, upstream: Tensor) -> Tensor:
        return gradient * upstream.to(gradient.dtype)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[None, None, None]:
        raise RuntimeError(
            "the loss has no second derivatives, since it keeps no logits; torch.nn.functional.cross_entropy has them"
        )
