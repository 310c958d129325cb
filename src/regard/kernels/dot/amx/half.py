"""Attention of bfloat16 and float16 on processors with a matrix unit (AMX), forward only: `half.cpp` in C++.

Products of the numbers are exact and added up in float32; of float16 as the sum of two bfloat16. Scores are never held
beyond a block of 32 queries and 1,024 keys (tiles: Dao et al. 2022; the softmax as keys come: Milakov & Gimelshein
2018).
"""

import ctypes
import functools
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.native import compiler

_TYPES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
_FAR = 2**40  # further than any key


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The built loop if this process may use a matrix unit, which the first call requests from the system."""
    library = compiler.library("dot/amx/half")
    return library if library is not None and library.half_available() else None


@functools.cache
def _loop(library: ctypes.CDLL, kind: torch.dtype) -> Callable[[int, float], None]:
    """The loop of a type."""
    loop: Any = getattr(library, f"half_forward_{_TYPES[kind]}")
    loop.argtypes, loop.restype = (ctypes.c_void_p, ctypes.c_double), None
    return loop


def serves(query: Tensor) -> bool:
    """Whether `forward` takes queries of this type and device."""
    return query.dtype in _TYPES and query.is_cpu and _library() is not None


def forward(
    query: Float[Tensor, "batch heads queries dim"],
    key: Float[Tensor, "batch key_heads keys dim"],
    value: Float[Tensor, "batch key_heads keys value_dim"],
    *,
    causal: bool,
    offset: int,
    window: tuple[int, int] | None,
    lengths: Sequence[int] | None,
    scale: float,
    logarithms: bool = True,
) -> tuple[Float[Tensor, "batch heads queries value_dim"], Float[Tensor, "batch heads queries"] | None]:
    """`softmax(scale · Q Kᵀ) V` over each query's visible keys, and the logarithm of the softmax's denominator.

    Args:
        query: of a type that `serves` has, with any strides, as all three; the three are of one type.
        key: a head of keys serves `heads / key_heads` heads of queries that follow each other.
        value: the keys' values.
        causal: query i attends to no key after `i + offset`.
        offset: a query's position plus this is its key's position.
        window: query i attends to keys from `i + offset - window[0]` to `i + offset + window[1]` only.
        lengths: how many keys each item has, its first ones; what lies behind them is not read.
        scale: of the scores.
        logarithms: whether the second is wanted.

    Returns:
        The context in the queries' type, and log-sum-exp of the scores in float32 (None if not wanted). A query that
        is fully masked has context 0 and −inf. Weights are rounded to the context's precision or better: bfloat16's to
        bfloat16, with the sum taken of what was rounded (so its log-sum-exp is off by up to 2^-8), float16's to 16
        bits.

    Raises:
        RuntimeError: the processor has no matrix unit; `serves` says so.
    """
    (batch, heads, queries, dim), (key_heads, keys, width) = query.shape, (*key.shape[1:3], value.shape[3])
    context = query.new_empty(batch, heads, queries, width)
    logsumexp = query.new_empty(batch, heads, queries, dtype=torch.float32) if logarithms else None
    if not batch * heads * queries:
        return context, logsumexp
    before, after = window if window is not None else (_FAR, _FAR)
    if causal:
        after = min(after, 0)
    counts = None if lengths is None else array("q", lengths)
    numbers = array(
        "q",
        (
            *(batch, heads, key_heads, queries, keys, dim, width, torch.get_num_threads()),
            *(offset, min(before, _FAR), min(after, _FAR), 0 if counts is None else counts.buffer_info()[0]),
            *(query.data_ptr(), key.data_ptr(), value.data_ptr()),
            *(*query.stride(), *key.stride(), *value.stride()),
            *(context.data_ptr(), 0 if logsumexp is None else logsumexp.data_ptr()),
        ),
    )
    library = _library()
    if library is None:
        raise RuntimeError("this process has no matrix unit: ask `serves` first")
    _loop(library, query.dtype)(numbers.buffer_info()[0], scale)
    return context, logsumexp
