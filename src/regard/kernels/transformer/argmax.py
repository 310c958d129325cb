"""The first of each row's largest logits and its log-probability in one compiled call, for greedy search.

Beside a small model's step the calls of numpy, or of torch, are a large part of the time.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, Input, Output

LIBRARY = Library("transformer/argmax", (torch.float32,))
_first_of_rows = LIBRARY.predicate(
    "first_of_rows",
    rows=INTEGER,
    choices=INTEGER,
    logits=Input("rows", "choices", strides=1),
    banned=Input("choices", dtype=torch.bool, optional=True),
    best=Output("rows", dtype=torch.int64),
    log_probability=Output("rows", dtype=torch.float64),
)


def serves(logits: Tensor, banned: Tensor | None) -> bool:
    """Whether the loop takes these logits: float32 on a CPU, a plain tensor with rows in one piece, and a compiler."""
    if type(logits) is not Tensor or logits.dtype is not torch.float32 or not logits.is_cpu or logits.ndim != 2:
        return False
    if logits.shape[1] == 0 or logits.stride(1) != 1:
        return False
    if banned is not None and (banned.shape != logits.shape[1:] or banned.dtype is not torch.bool or not banned.is_cpu):
        return False
    return LIBRARY.serves(torch.float32)


def first(
    logits: Float[Tensor, "rows choices"], banned: Bool[Tensor, " choices"] | None
) -> tuple[Int[np.ndarray, "rows 1"], Float64[np.ndarray, "rows 1"]] | None:
    """Each row's first of the largest logits that are not banned, and its log-probability among all, in nats.

    Where nothing is allowed, or all is −inf, that is −inf. None where some logit is NaN or +inf.
    """
    rows, choices = logits.shape
    best, found = torch.empty(rows, 1, dtype=torch.long), torch.empty(rows, 1, dtype=torch.double)
    banned = None if banned is None else banned.contiguous()
    fine = _first_of_rows(rows=rows, choices=choices, logits=logits, banned=banned, best=best, log_probability=found)
    return (best.numpy(), found.numpy()) if fine else None
