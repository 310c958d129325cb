"""What each item's queries read at its own keys by bilinear scores, in training: padding is neither computed nor read.

torch's fused attention takes all items as long as the longest, and so does what projects its queries. Here the queries
lie one item after the other, and a native loop (`bilinear.cpp`) gives each item its own keys.
"""

import ctypes
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.autograd.once_differentiable import graph_anchor, once_differentiable
from regard.kernels.autograd.plain import are_materialized, is_plain
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native import compiler

_NAME = "recurrent/bilinear"
_KINDS = {torch.float32: "float32", torch.float64: "float64"}
_LANES = 16  # rows of weights are whole vectors, of any type


def serves(hidden: Tensor, weight: Tensor, values: Tensor) -> bool:
    """Whether the loop takes a call: a plain one with gradients, all of one type, on a CPU with a compiler."""
    kind = hidden.dtype
    if kind not in _KINDS or not torch.is_grad_enabled() or not (hidden.numel() and values.numel()):
        return False
    given = (hidden, weight, values)
    fit = all(one.is_cpu and one.dtype is kind and is_plain(one) for one in given)
    return fit and any(one.requires_grad for one in given) and compiler.library(_NAME) is not None


def read_by_own(
    hidden: Float[Tensor, "batch queries dim"],
    weight: Float[Tensor, "dim key_dim"],
    values: Float[Tensor, "batch keys key_dim"],
    places: Int[Tensor, " tokens"],
    counts: Int[Tensor, " batch"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, "tokens both_dims"]:
    """`[h; Σ_k softmax_k(hᵀ W v_k) v_k]` of each item's first queries (Luong 2015, eq. 7 and 8), item by item.

    Can be differentiated once. Of no keys 0 is read.

    Args:
        hidden: the queries.
        weight: W.
        values: keys and values at once.
        places: where the real queries lie in `(batch · queries)`.
        counts: how many each item has, its first ones.
        lengths: how many of its keys are real, its first ones.
    """
    none, whole = graph_anchor(hidden), (counts.long().contiguous(), lengths.long().contiguous())
    out: Tensor = _Read.apply(none, hidden, weight, values, places, *whole)
    return out


class _Sizes(ctypes.Structure):
    """As the loop has it."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "room", "width", "stride", "threads")),
        *((name, ctypes.c_void_p) for name in ("counts", "lengths")),
    )


def _run(name: str, values: Tensor, counts: Tensor, lengths: Tensor, weights: Tensor, *others: Any) -> None:
    library = compiler.library(_NAME)
    assert library is not None
    where = counts.data_ptr(), lengths.data_ptr()
    sizes = _Sizes(*values.shape, weights.shape[1], torch.get_num_threads(), *where)
    given = (ctypes.c_void_p(one.data_ptr()) if isinstance(one, Tensor) else ctypes.c_int64(one) for one in others)
    library[f"bilinear_{name}_{_KINDS[values.dtype]}"](ctypes.byref(sizes), *given)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        none: Tensor,
        hidden: Tensor,
        weight: Tensor,
        values: Tensor,
        places: Tensor,
        counts: Tensor,
        lengths: Tensor,
    ) -> Tensor:
        dim, held = hidden.shape[2], values.contiguous()
        pair = hidden.new_empty(len(places), dim + values.shape[2])
        rows, context = pair[:, :dim], pair[:, dim:]
        torch.index_select(hidden.flatten(0, 1), 0, places, out=rows)
        compared = rows.mm(weight)
        weights = hidden.new_empty(len(places), -(-values.shape[1] // _LANES) * _LANES)
        _run("forward", held, counts, lengths, weights, compared, held, weights, context, pair.stride(0))
        ctx.shape = hidden.shape
        ctx.save_for_backward(none, weight, values, places, counts, lengths, compared, weights, pair)
        return pair

    @staticmethod
    @unbatched
    @once_differentiable("general attention over each item's own keys; a step at a time has them")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        _, weight, values, places, counts, lengths, compared, weights, pair = ctx.saved_tensors
        dim, held, grad_output = ctx.shape[2], values.contiguous(), upstream.contiguous()
        context = grad_output[:, dim:]
        if are_materialized(upstream):
            to_compared, to_values = torch.empty_like(compared), torch.empty_like(held)
            given = compared, held, weights, context, grad_output.stride(0), to_compared, to_values
            _run("backward", held, counts, lengths, weights, *given)
        else:
            to_compared, to_values = _backward_by_item(
                context, compared, held, weights, counts.tolist(), lengths.tolist()
            )
        to_rows = to_compared.mm(weight.t()).add_(grad_output[:, :dim])
        to_hidden = to_rows.new_zeros(ctx.shape[:2].numel(), dim).index_copy_(0, places, to_rows).view(ctx.shape)
        to_weight = pair[:, :dim].t().mm(to_compared)
        return None, to_hidden, to_weight, to_values, None, None, None


def _backward_by_item(
    grad_output: Tensor, compared: Tensor, held: Tensor, weights: Tensor, counts: list[int], lengths: list[int]
) -> tuple[Tensor, Tensor]:
    """The gradients of the queries as they are compared and of the keys, by torch's calls: many at once, say."""
    to_compared, to_values = [], []
    for item, (rows, queries, shares) in enumerate(
        zip(grad_output.split(counts), compared.split(counts), weights.split(counts), strict=True)
    ):
        own, shares = held[item, : lengths[item]], shares[:, : lengths[item]]
        passed = shares * (rows @ own.t())
        slopes = passed - shares * passed.sum(-1, keepdim=True)
        to_compared.append(slopes @ own)
        to_own = shares.t() @ rows + slopes.t() @ queries
        to_values.append(torch.cat([to_own, held.new_zeros(held.shape[1] - lengths[item], held.shape[2])]))
    return torch.cat(to_compared), torch.stack(to_values)
