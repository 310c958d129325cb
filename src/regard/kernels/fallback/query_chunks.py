"""Queries some at a time, so that memory grows with the length and not with its square, for any score."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MANY = 2**22
"""So many weights at once are taken in parts."""

PART = 2**20
"""Weights of one part: 4 MiB of float32."""


def in_chunks(
    context: Callable[[slice], Tensor], queries: int, weights: int, draws: bool
) -> Float[Tensor, "*lead queries value_dim"]:
    """The context of all queries from that of some of them. The backward pass computes each part again.

    Args:
        context: what the queries in a slice read, `(…, some, value_dim)`; no query's answer depends on another's.
        queries: how many there are.
        weights: how many all of them have.
        draws: whether random numbers are drawn, which the backward pass must find again.
    """
    step = max(1, PART * queries // weights)
    parts = [slice(start, min(start + step, queries)) for start in range(0, queries, step)]
    if not torch.is_grad_enabled():  # a first checkpoint imports torch's compiler for seconds
        return torch.cat([context(part) for part in parts], dim=-2)
    made = [checkpoint(context, part, use_reentrant=False, preserve_rng_state=draws) for part in parts]
    return torch.cat(made, dim=-2)


def chunk_of(of_pairs: Tensor | None, part: slice) -> Tensor | None:
    """The rows of some queries, `(…, queries, keys)`; a single row serves all."""
    return of_pairs if of_pairs is None or of_pairs.shape[-2] == 1 else of_pairs[..., part, :]
