"""Dropout by 16 bits a number in one compiled pass, there and back (`dropout.cpp`); torch's calls make several."""

import ctypes
import functools
from typing import Any

import torch
from jaxtyping import Float, Int16
from torch import Tensor

from regard.kernels import compiler
from regard.kernels.calls import are_numbers, is_plain

_KINDS = {torch.float32: "float32", torch.float64: "float64"}
_LEAST = 2**12  # numbers from which on it is faster


def dropped(
    x: Float[Tensor, "*shape"], bits: Int16[Tensor, "*shape"], least: int, scale: float
) -> Float[Tensor, "*shape"]:
    """`x · scale` where the bits are at least `least`, `x · 0` elsewhere.

    Args:
        x: any tensor; the loop takes plain ones on a CPU, whose numbers lie in order, and torch's calls all others.
        bits: a draw for each number.
        least: the lowest draw that keeps its number.
        scale: of what is kept.
    """
    fits = (
        type(x) is Tensor
        and x.dtype in _KINDS
        and x.is_cpu
        and bits.is_cpu
        and x.numel() >= _LEAST
        and x.is_contiguous()
        and bits.is_contiguous()
    )
    if not fits or not is_plain(x) or not are_numbers(x) or compiler.library("dropout") is None:
        kept = (bits >= least).to(x.dtype)
        return x * kept.mul_(scale)
    out: Tensor = _Dropped.apply(x, bits, least, scale)
    return out


@functools.cache
def _loop(kind: torch.dtype) -> Any:
    library = compiler.library("dropout")
    assert library is not None
    loop, whole, pointer = library[f"dropped_{_KINDS[kind]}"], ctypes.c_int64, ctypes.c_void_p
    loop.argtypes = (whole, whole, pointer, pointer, whole, ctypes.c_double, pointer)
    loop.restype = None
    return loop


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Tensor, least: int, scale: float) -> Tensor:
        ctx.save_for_backward(bits)
        ctx.how = least, scale
        out = torch.empty_like(x)
        given = x.data_ptr(), bits.data_ptr(), least, scale, out.data_ptr()
        _loop(x.dtype)(x.numel(), torch.get_num_threads(), *given)
        return out

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None, None, None]:
        (bits,) = ctx.saved_tensors
        return dropped(above, bits, *ctx.how), None, None, None  # linear in x: its own derivatives follow
