"""Dropout by 16 bits a number in one native pass, forward and backward (`dropout.cpp`); torch's calls make several.

Srivastava et al. 2014; what stays is divided by the part that stays, so that nothing is scaled at test time.
"""

from typing import Any

import torch
from jaxtyping import Float, Int16, Int64
from torch import Tensor

from regard.kernels.autograd.plain import are_materialized, is_plain
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Input, Output

LEVELS = 1 << 16
"""16 bits decide over a number: a rate is a multiple of 1/65,536, and the scale is that of the rounded rate."""

_LANES = 4  # numbers that one 64-bit draw decides over
_LEAST = 2**12  # numbers from which on it is faster

LIBRARY = Library("loss/dropout", (torch.float32, torch.float64))
_loop = LIBRARY.loop(
    "dropped",
    size=INTEGER,
    threads=THREADS,
    x=Input("size"),
    bits=Input("size", dtype=torch.int16),
    least=INTEGER,
    scale=REAL,
    out=Output("size"),
)


def draws(numbers: int) -> int:
    """How many 64-bit draws decide over so many numbers."""
    return -(-numbers // _LANES)


def bits_of(drawn: Int64[Tensor, " draws"], like: Tensor) -> Int16[Tensor, "*shape"]:
    """16 bits of the draws for each number of a tensor."""
    return drawn.view(torch.int16)[: like.numel()].view(like.shape)


def multipliers(bits: Int16[Tensor, "*shape"], rate: int, kind: torch.dtype) -> Float[Tensor, "*shape"]:
    """For each draw 0, or what a number that stays is multiplied by, so that the expectation is as it was.

    Args:
        bits: a draw for each number.
        rate: of `LEVELS`, how many drop theirs; at `LEVELS` all do.
        kind: of the numbers.
    """
    least, scale = _how(rate)
    stays = torch.empty_like(bits, dtype=kind)
    return torch.ge(bits, least, out=stays).mul_(scale)


def _how(rate: int) -> tuple[int, float]:
    """The lowest draw that keeps its number, and by what that is multiplied."""
    return rate - LEVELS // 2, LEVELS / (LEVELS - rate) if rate < LEVELS else 0.0


def dropped(x: Float[Tensor, "*shape"], bits: Int16[Tensor, "*shape"], rate: int) -> Float[Tensor, "*shape"]:
    """`x` times its `multipliers`, in one pass.

    Args:
        x: any tensor; the loop takes plain ones on a CPU, whose numbers lie in order, and torch's calls all others.
        bits: a draw for each number.
        rate: as for `multipliers`.
    """
    fits = (
        type(x) is Tensor
        and x.is_cpu
        and bits.is_cpu
        and x.numel() >= _LEAST
        and x.is_contiguous()
        and bits.is_contiguous()
    )
    if not fits or not is_plain(x) or not are_materialized(x) or not LIBRARY.serves(x.dtype):
        return x * multipliers(bits, rate, x.dtype)
    out: Tensor = _Dropped.apply(x, bits, rate)
    return out


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Tensor, rate: int) -> Tensor:
        ctx.save_for_backward(bits)
        ctx.rate = rate
        out = torch.empty_like(x)
        least, scale = _how(rate)
        _loop(size=x.numel(), x=x, bits=bits, least=least, scale=scale, out=out)
        return out

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None, None]:
        (bits,) = ctx.saved_tensors
        return dropped(above, bits, ctx.rate), None, None  # linear in x: its own derivatives follow
