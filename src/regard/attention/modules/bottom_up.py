"""Attention from the bottom up: what stands out is taken, whatever the query. The scores are the features.

Max pooling over time and gating are rows of the family: a head a channel, a query that is 1.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import Attended, attend
from regard.attention.parts.mask_kinds import MaskLike


def max_pooling(
    features: Float[Tensor, "batch positions channels"], mask: MaskLike | None = None
) -> tuple[Float[Tensor, "batch channels"], Attended]:
    """The greatest feature of each channel: hard attention over time (pooling as in Kim 2014, arXiv 1408.5882).

    Args:
        features: scores and values alike.
        mask: which positions are real, such as `masks.padding(lengths)`; a fully masked channel gives 0.

    Returns:
        What was read, and the attention, whose weights `(batch, channels, 1, positions)` are 1 at the places taken.
    """
    channels = _apart(features)
    attended = attend(_ones(channels), channels, channels, score="dot", normalizer="hard", mask=mask, weights=True)
    return _joined(attended).squeeze(1), attended


def gating(
    gates: Float[Tensor, "batch positions channels"], features: Float[Tensor, "batch positions channels"]
) -> tuple[Float[Tensor, "batch positions channels"], Attended]:
    """`σ(g) · x`: sigmoid attention in which a position attends to itself alone (a GLU, arXiv 1612.08083).

    With the features as their own gates it is the activation SiLU.

    Args:
        gates: the scores.
        features: the values.

    Returns:
        What was read, and the attention.
    """
    keys, values = _apart(gates), _apart(features)
    attended = attend(_ones(keys, each=True), keys, values, score="dot", normalizer="sigmoid", mask=_itself)
    return _joined(attended), attended


def _apart(features: Tensor) -> Tensor:
    """(batch, positions, channels) -> (batch, channels, positions, 1): a head a channel, of width 1."""
    return features.transpose(1, 2).unsqueeze(-1)


def _joined(attended: Attended) -> Tensor:
    assert attended.context is not None
    return attended.context.squeeze(-1).transpose(1, 2)


def _ones(channels: Tensor, each: bool = False) -> Tensor:
    """A query that says nothing: 1 for every channel, once or at each position."""
    return torch.ones_like(channels if each else channels[:, :, :1])


def _itself(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query == key
