"""Guided alignment: the attention is taught known links beside the words (Chen et al. 2016, arXiv 1607.01628).

    H(A*, α) = −1/m Σ_t Σ_i A*_ti log α_ti        beside −1/m Σ_t log p(y_t), with a weight

A* are links of words, spread over tokens, each row summing to 1 (`data.translation.guidance`); m are the target's
words. Mi et al. (2016, "Supervised attentions for neural machine translation") teach the same.
"""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ConfigError
from regard.layers.decoder import over_heads
from regard.layers.objective import Objective, objective

LEAST_WEIGHT = 1e-30  # the weight that a position without any is taken to have, so that its logarithm is finite


@runtime_checkable
class LinkedPairs(Protocol):
    """A batch of sentence pairs whose links are known, as `data.translation.batches.TextBatch`."""

    @property
    def source(self) -> Int[Tensor, "batch positions"]:
        """Source ids, padded with 0."""
        ...

    @property
    def source_lengths(self) -> Int[Tensor, " batch"]:
        """Real source positions of each pair."""
        ...

    @property
    def target_in(self) -> Int[Tensor, "batch steps"]:
        """Target ids that the decoder reads, BOS first."""
        ...

    @property
    def target_out(self) -> Int[Tensor, "batch steps"]:
        """Target ids that it is to predict, EOS last."""
        ...

    @property
    def target_lengths(self) -> Int[Tensor, " batch"]:
        """Real target positions of each pair."""
        ...

    @property
    def links(self) -> Float[Tensor, "batch steps positions"] | None:
        """A*: rows that sum to 1, or to 0 where a target token has no link; None where no links are known."""
        ...


@runtime_checkable
class Guidable(Protocol):
    """A translator whose attention can be taught."""

    def reading(self, batch: Any) -> Any:
        """`features` `(batch, steps, width)` of all target positions; `attended`, the source's attention, or None."""
        ...

    def vocabulary(self, features: Tensor) -> Tensor:
        """Logits of all target words."""
        ...


def guided_objective(model: Guidable, batch: LinkedPairs, smoothing: float = 0.0, weight: float = 1.0) -> Objective:
    """The model's objective, whose gradient also draws the attention to the links; of several heads, their mean.

    The guidance is part of the gradient alone: the value stays that of the words, so that runs of all weights compare.

    Args:
        model: one that attends; every word is read after the right one before it (teacher_forcing 1).
        batch: with its links.
        smoothing: of the labels.
        weight: how many nats of a word one nat of a row of links is worth; 0 is the plain objective.

    Raises:
        ConfigError: the model has no attention, or the batch holds no links.
    """
    features, weights = _read(model, batch)
    kept = torch.arange(features.shape[1], device=features.device) < batch.target_lengths.unsqueeze(-1)
    found = objective(model.vocabulary(features[kept]), batch.target_out[kept], smoothing)
    extra = weight * guidance(weights, _links(batch))
    return replace(found, total=found.total + (extra - extra.detach()))


def guidance_of(model: Guidable, batch: LinkedPairs) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """How far the attention is from the links: a sum in nats, and the number of target tokens with links."""
    return guidance(_read(model, batch)[1], _links(batch)), (_links(batch) > 0).any(-1).sum()


def guidance(
    weights: Float[Tensor, "batch steps positions"], links: Float[Tensor, "batch steps positions"]
) -> Float[Tensor, ""]:
    """`−Σ_t Σ_i A*_ti log α_ti` in nats.

    A position outside a window, or cut off by sparsemax, has weight 0: it counts as
    `LEAST_WEIGHT`, 69 nats, and teaches nothing.

    Args:
        weights: α, one row a target position.
        links: A*, rows that sum to 1; a row of 0 counts nowhere.
    """
    weights = weights.float() if weights.dtype in (torch.float16, torch.bfloat16) else weights
    # Where there is no link nothing may come back, be the weight NaN.
    logs = torch.where(links > 0, weights, 1.0).clamp_min(LEAST_WEIGHT).log()
    return -(links * logs).sum()


def _links(batch: LinkedPairs) -> Tensor:
    if batch.links is None:
        raise ConfigError("the batch holds no links, so there is nothing to guide the attention by")
    return batch.links


def _read(
    model: Guidable, batch: LinkedPairs
) -> tuple[Float[Tensor, "batch steps readout_dim"], Float[Tensor, "batch steps positions"]]:
    """What the output layer reads at every target position, padding too, and its attention weights."""
    reading = model.reading(batch)
    if reading.attended is None:
        raise ConfigError("the model has no attention (model.attention is none), so there is none to guide")
    return reading.features, over_heads(reading.attended.weights)
