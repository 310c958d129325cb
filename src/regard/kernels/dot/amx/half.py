"""Attention of bfloat16 and float16 on processors with a matrix unit (AMX), forward only: `half.cpp` in C++.

Products of the numbers are exact and added up in float32; of float16 as the sum of two bfloat16. Scores are never held
beyond a block of 32 queries and 1,024 keys (tiles: Dao et al. 2022; the softmax as keys come: Milakov & Gimelshein
2018).
"""

import functools
from array import array
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Counts, Input, Output

_FAR = 2**40  # further than any key

_KINDS = (torch.bfloat16, torch.float16)
LIBRARY = Library("dot/amx/half", _KINDS, may_lack=_KINDS)
_loop = LIBRARY.loop(
    "half_forward",
    **dict.fromkeys(("batch", "heads", "key_heads", "queries", "keys", "dim", "width"), INTEGER),
    threads=THREADS,
    offset=INTEGER,
    before=INTEGER,
    after=INTEGER,
    lengths=Counts("batch"),
    scale=REAL,
    query=Input("batch", "heads", "queries", "dim", strides=4),
    key=Input("batch", "key_heads", "keys", "dim", strides=4),
    value=Input("batch", "key_heads", "keys", "width", strides=4),
    context=Output("batch", "heads", "queries", "width"),
    logsumexp=Output("batch", "heads", "queries", dtype=torch.float32, optional=True),
)


@functools.cache
def _is_granted() -> bool:
    """Whether the loop could be built and this process may use a matrix unit, which is requested from the system."""
    return LIBRARY.serves(torch.bfloat16) and LIBRARY.number("half_available") != 0


def serves(query: Tensor) -> bool:
    """Whether `forward` takes queries of this type and device."""
    return query.dtype in _KINDS and query.is_cpu and _is_granted()


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
    if not _is_granted():
        raise RuntimeError("this process has no matrix unit: ask `serves` first")
    _loop(
        batch=batch,
        heads=heads,
        key_heads=key_heads,
        queries=queries,
        keys=keys,
        dim=dim,
        width=width,
        offset=offset,
        before=min(before, _FAR),
        after=min(after, _FAR),
        lengths=None if lengths is None else array("q", lengths),
        scale=scale,
        query=query,
        key=key,
        value=value,
        context=context,
        logsumexp=logsumexp,
    )
    return context, logsumexp
