"""What each item's queries read at its own keys by bilinear scores, in training: padding is neither computed nor read.

torch's fused attention takes all items as long as the longest, and so does what projects its queries. Here the queries
lie one item after the other, and a native loop (`bilinear.cpp`) gives each item its own keys.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.autograd.once_differentiable import graph_anchor, once_differentiable
from regard.kernels.autograd.plain import are_materialized, is_plain
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, THREADS, Input, Output

_LANES = 16  # rows of weights are whole vectors, of any type

LIBRARY = Library("recurrent/bilinear", (torch.float32, torch.float64))
_sizes = LIBRARY.structure(
    "BilinearSizes",
    **dict.fromkeys(("batch", "queries", "room", "width", "stride"), INTEGER),
    threads=THREADS,
    counts=Input("batch", dtype=torch.int64),
    lengths=Input("batch", dtype=torch.int64),
)
_loop_forward = LIBRARY.loop(
    "bilinear_forward",
    _sizes,
    compared=Input("queries", "width"),
    keys=Input("batch", "room", "width"),
    weights=Output("queries", "stride"),
    context=Output("queries", "width", strides=1),
)
_loop_backward = LIBRARY.loop(
    "bilinear_backward",
    _sizes,
    compared=Input("queries", "width"),
    keys=Input("batch", "room", "width"),
    weights=Input("queries", "stride"),
    grad_output=Input("queries", "width", strides=1),
    to_compared=Output("queries", "width"),
    to_keys=Output("batch", "room", "width"),
)


def serves(hidden: Tensor, weight: Tensor, values: Tensor) -> bool:
    """Whether the loop takes a call: a plain one with gradients, all of one type, on a CPU with a compiler."""
    kind = hidden.dtype
    if not torch.is_grad_enabled() or not (hidden.numel() and values.numel()):
        return False
    given = (hidden, weight, values)
    fit = all(one.is_cpu and one.dtype is kind and is_plain(one) for one in given)
    return fit and any(one.requires_grad for one in given) and LIBRARY.serves(kind)


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


def _sizes_of(values: Tensor, counts: Tensor, lengths: Tensor, weights: Tensor) -> dict[str, Any]:
    """What both loops are given first."""
    (batch, room, width), (queries, stride) = values.shape, weights.shape
    sizes = {"batch": batch, "queries": queries, "room": room, "width": width, "stride": stride}
    return {**sizes, "counts": counts, "lengths": lengths}


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
        sizes = _sizes_of(held, counts, lengths, weights)
        _loop_forward(**sizes, compared=compared, keys=held, weights=weights, context=context)
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
            _loop_backward(
                **_sizes_of(held, counts, lengths, weights),
                compared=compared,
                keys=held,
                weights=weights,
                grad_output=context,
                to_compared=to_compared,
                to_keys=to_values,
            )
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
