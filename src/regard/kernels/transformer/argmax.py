"""The first of each row's largest logits and its log-probability in one compiled call, for greedy search.

Beside a small model's step the calls of numpy, or of torch, are a large part of the time.
"""

import ctypes
import functools
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from regard.kernels.native import compiler

_NAME = "transformer/argmax"
_POINTER, _WHOLE = ctypes.c_void_p, ctypes.c_int64


def serves(logits: Tensor, banned: Tensor | None) -> bool:
    """Whether the loop takes these logits: float32 on a CPU, a plain tensor with rows in one piece, and a compiler."""
    if type(logits) is not Tensor or logits.dtype is not torch.float32 or not logits.is_cpu or logits.ndim != 2:
        return False
    if logits.shape[1] == 0 or logits.stride(1) != 1:
        return False
    if banned is not None and (banned.shape != logits.shape[1:] or banned.dtype is not torch.bool or not banned.is_cpu):
        return False
    return compiler.library(_NAME) is not None


def first(
    logits: Float[Tensor, "rows choices"], banned: Bool[Tensor, " choices"] | None
) -> tuple[Int[np.ndarray, "rows 1"], Float64[np.ndarray, "rows 1"]] | None:
    """Each row's first of the largest logits that are not banned, and its log-probability among all, in nats.

    Where nothing is allowed, or all is −inf, that is −inf. None where some logit is NaN or +inf.
    """
    rows, choices = logits.shape
    best, found = torch.empty(rows, 1, dtype=torch.long), torch.empty(rows, 1, dtype=torch.double)
    banned = None if banned is None else banned.contiguous()
    marks = None if banned is None else banned.data_ptr()
    fine = _loop()(rows, choices, logits.stride(0), logits.data_ptr(), marks, best.data_ptr(), found.data_ptr())
    return (best.numpy(), found.numpy()) if fine else None


@functools.cache
def _loop() -> Any:
    library = compiler.library(_NAME)
    assert library is not None
    loop = library.first_of_rows
    loop.argtypes = (_WHOLE, _WHOLE, _WHOLE, _POINTER, _POINTER, _POINTER, _POINTER)
    return loop
