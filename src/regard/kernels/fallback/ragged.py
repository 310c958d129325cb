"""Items of different lengths, each with its own keys alone: padding is not computed."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.fallback.sdpa import fused


def ragged(
    query: Float[Tensor, "batch *heads queries dim"],
    key: Float[Tensor, "batch *key_heads keys dim"],
    value: Float[Tensor, "batch *key_heads keys value_dim"],
    *,
    lengths: Sequence[int],
    bias: Float[Tensor, "..."] | None,
    causal: bool,
    scale: float,
    ragged_queries: bool = False,
) -> Float[Tensor, "batch *heads queries value_dim"]:
    """`softmax(scale · q kᵀ + bias) v` over the first `lengths[b]` keys of item b; of no keys 0 is read.

    Args:
        query: query vectors; queries beyond an item's length attend to its keys like any other.
        key: key vectors.
        value: value vectors.
        lengths: real keys of each item.
        bias: added to the scores.
        causal: query i attends to no key beyond i, as many queries as keys.
        scale: of the products.
        ragged_queries: queries beyond an item's length are fully masked, and are not computed.
    """
    queries = query.shape[-2]
    contexts = []
    # Taken apart in one call each: its gradient is one stack. A slice of the whole would be a sum of padded wholes.
    items = zip(query.split(1), key.split(1), value.split(1), lengths, strict=True)
    for number, (rows, held, given, length) in enumerate(items):
        if length == 0:
            nothing = rows[..., :0].sum(-1, keepdim=True)  # 0, but with a backward pass: its gradient is 0
            contexts.append(nothing.expand(*rows.shape[:-1], given.shape[-1]))
            continue
        own = bias if bias is None or bias.shape[0] == 1 else bias[number : number + 1]
        # Causal: the first queries attend to what is before them, those beyond the length to all.
        end = length if ragged_queries else queries
        spans = [(0, length, True), (length, end, False)] if causal else [(0, end, False)]
        parts = [
            fused(
                rows[..., first:last, :],
                held[..., :length, :],
                given[..., :length, :],
                keep=None,
                bias=None if own is None else _cut(own, first, last, length),
                causal=square,
                scale=scale,
            )
            for first, last, square in spans
            if first < last
        ]
        context = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)
        contexts.append(F.pad(context, (0, 0, 0, queries - end)) if end < queries else context)
    return torch.cat(contexts)


def _cut(bias: Tensor, first: int, last: int, length: int) -> Tensor:
    rows = bias if bias.shape[-2] == 1 else bias[..., first:last, :]
    return rows if bias.shape[-1] == 1 else rows[..., :length]
