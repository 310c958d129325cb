"""Softmax of a sequence's dot products with itself, from one product of its three parts, for training on a CPU.

What `scaled_dot_product_attention` computes of the three parts. The loop (`self_attention.cpp`) reads them where the
product left them, writes the context as the next product reads it, and the gradients side by side: so nothing is copied
between a block's products. It knows causal attention and attention to all positions.
Scaled dot products: Vaswani et al. 2017, equation 1; weights recomputed backward: Dao et al. 2022.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.plain import are_materialized, is_plain
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Input, Output

_LEAST = 2**15  # pairs of all heads from which on it is faster
_LONGEST = 1024  # of a strip's scores, which lie near
_WIDTHS = 16  # a head's width is a multiple of a vector's numbers

LIBRARY = Library("transformer/self_attention", (torch.float32,))
_MADE, _ACROSS = ("batch", "size", "heads + 2 * key_heads", "width"), ("batch", "size", "heads", "width")
_STATISTICS = ("batch", "heads", "2", "size")  # maxima, 1 / sums of weights
_call = LIBRARY.structure(
    "SelfAttentionCall",
    **dict.fromkeys(("batch", "size", "heads", "key_heads", "width", "causal"), INTEGER),
    threads=THREADS,
    scale=REAL,
    made=Input(*_MADE),  # queries, keys, values
)
_loop_forward = LIBRARY.loop("self_attention_forward", _call, context=Output(*_ACROSS), statistics=Output(*_STATISTICS))
_loop_backward = LIBRARY.loop(
    "self_attention_backward",
    _call,
    context=Input(*_ACROSS),
    statistics=Input(*_STATISTICS),
    upstream=Input(*_ACROSS),
    to_made=Output(*_MADE),
)


def serves(made: Tensor, heads: int, key_heads: int, width: int) -> bool:
    """Whether the loop takes it: a plain call with gradients, in float32 on a CPU with a compiler.

    Args:
        made: `(batch, positions, …)`, queries, keys and values.
        heads: of queries.
        key_heads: of keys and values.
        width: of a head.
    """
    if made.device.type != "cpu" or not torch.is_grad_enabled() or not is_plain(made) or made.ndim != 3:
        return False
    (batch, size, together), numbers = made.shape, width * (heads + 2 * key_heads)
    if not made.requires_grad or made.dtype is not torch.float32 or together != numbers or width % _WIDTHS:
        return False
    return 0 < size <= _LONGEST and batch * heads * size * size >= _LEAST and LIBRARY.serves(torch.float32)


def attention(
    made: Float[Tensor, "batch positions together"], heads: int, key_heads: int, *, causal: bool, scale: float
) -> Float[Tensor, "batch positions across"]:
    """`softmax(scale · q kᵀ) v` of each head, heads side by side.

    A query whose scores are all −inf gets a zero context. Derivatives of derivatives are those of torch's own
    operations.

    Args:
        made: queries of all heads, then keys, then values, as many as `key_heads`, which divide `heads`.
        heads: of queries.
        key_heads: of keys and values.
        causal: a position attends to those up to itself.
        scale: of the products.
    """
    context: Tensor = _Attention.apply(made, heads, key_heads, causal, scale)
    return context


def _sizes_of(made: Tensor, heads: int, key_heads: int, causal: bool, scale: float) -> dict[str, Any]:
    """What both loops are given first."""
    batch, size, together = made.shape
    width = together // (heads + 2 * key_heads)
    sizes = {"batch": batch, "size": size, "heads": heads, "key_heads": key_heads, "width": width}
    return {**sizes, "causal": causal, "scale": scale}


def _formula(made: Tensor, heads: int, key_heads: int, causal: bool, scale: float) -> Tensor:
    parts = made.unflatten(-1, (heads + 2 * key_heads, -1)).transpose(1, 2).split((heads, key_heads, key_heads), dim=1)
    query, key, value = parts[0], *(one.repeat_interleave(heads // key_heads, dim=1) for one in parts[1:])
    scores = query @ key.transpose(-2, -1) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, made: Tensor, heads: int, key_heads: int, causal: bool, scale: float) -> Tensor:
        batch, size, together = made.shape
        context = made.new_empty(batch, size, together // (heads + 2 * key_heads) * heads)
        statistics = made.new_empty(batch, heads, 2, size)
        ctx.call = heads, key_heads, causal, scale
        _loop_forward(**_sizes_of(made, *ctx.call), made=made.contiguous(), context=context, statistics=statistics)
        ctx.save_for_backward(made, context, statistics)
        return context

    @staticmethod
    @unbatched
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:
        made, context, statistics = ctx.saved_tensors
        create = torch.is_grad_enabled()
        if create or not are_materialized(grad_output):  # somebody will differentiate or map this
            with torch.enable_grad():
                given = made if create else made.detach().requires_grad_()
                (slope,) = torch.autograd.grad(_formula(given, *ctx.call), given, grad_output, create_graph=create)
            return slope, None, None, None, None
        made = made.contiguous()
        slope = torch.empty_like(made)
        _loop_backward(
            **_sizes_of(made, *ctx.call),
            made=made,
            context=context,
            statistics=statistics,
            upstream=grad_output.contiguous(),
            to_made=slope,
        )
        return slope, None, None, None, None
