"""Weights, their logarithms and their statistics on demand, for the paths that did not form them."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attended import Counted, check_unchanged, counted
from regard.attention.call import guard
from regard.attention.call.call import Call
from regard.attention.statistics import Statistics, statistics_of
from regard.kernels.fallback import query_chunks

ALL = slice(None)
"""All queries."""


def cast(kind: torch.dtype, tensor: Tensor) -> Tensor:
    """In this type; a conversion to the type that it has takes as long as a small operation."""
    return tensor if tensor.dtype is kind else tensor.to(kind)


def recompute(
    call: Call,
    scores: Callable[[slice], Tensor],
    drawn_mask: Callable[[], Tensor | None],
    *made_from: Tensor,
    observed: Callable[[int], Statistics] | None = None,
) -> "Recompute":
    """How to make the weights after a path that did not form them.

    Args:
        call: it was.
        scores: those of some queries against all keys.
        drawn_mask: the mask as it was.
        *made_from: the tensors that the weights are made from, beside the bias.
        observed: the statistics of the weights, where a path has its own.
    """
    # A graph takes no recipes along.
    counts = [] if call.traced or call.own else counted(*made_from, call.bias)
    return Recompute(call, scores, drawn_mask, observed, counts)


class Recompute(NamedTuple):
    """The weights made again, with their scores and mask; those of the queries in `nonfinite` are NaN."""

    call: Call
    scores: Callable[[slice], Tensor]
    drawn_mask: Callable[[], Tensor | None]
    observed: Callable[[int], Statistics] | None
    counts: Counted
    nonfinite: Tensor | None = None

    def check(self) -> None:
        """Raise an error where what the weights are made from was changed since the call."""
        check_unchanged(self.counts)

    def weights(self) -> Tensor:
        """See `Recipe.weights`."""
        return self._made(self.call.normalizer, ALL)

    def log_weights(self) -> Tensor:
        """See `Recipe.log_weights`."""
        return self._made(self.call.normalizer.log_weights, ALL)

    @property
    def statistics(self) -> Callable[[int], Statistics] | None:
        """See `Recipe.statistics`."""
        return None if isinstance(self.call.normalizer.temperature, Tensor) else self.observed or self._statistics

    def _statistics(self, top: int) -> Statistics:
        shape = (*self.call.query.shape[:-1], self.call.sizes.keys)
        return statistics_of(lambda part: self._made(self.call.normalizer, part), shape, top)

    def _made(self, make: Callable[[Tensor, Tensor | None], Tensor], part: slice) -> Tensor:
        keep = query_chunks.chunk_of(self.drawn_mask(), part)
        nonfinite = None if self.nonfinite is None else self.nonfinite[..., part]
        return cast(self.call.query.dtype, guard.propagate_nan(make(self.scores(part), keep), nonfinite, keep))
