"""Pooling: queries that are parameters, not computed, attend to one sequence and give a vector of fixed width."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.call.call import NormalizerLike, ScoreLike, as_normalizer, as_score, checked_dropout
from regard.attention.parts.mask_kinds import MaskLike
from regard.attention.parts.score_base import Prepared
from regard.errors import ConfigError


class LearnedQueries(nn.Module):
    """M learned queries over one X; their contexts are concatenated (Lin 2017, section 2.1; M = 1: Yang 2016, eq. 6).

    There are no projections: the width of the context is M times that of the values.

    Args:
        queries: M.
        dim: width of a query, as the score takes it.
        score: a Score, or the name of one without parameters.
        normalizer: a Normalizer or its name.
        dropout: on the weights, in training only.

    Raises:
        ConfigError: no query, or one of width 0.
    """

    def __init__(
        self,
        queries: int,
        dim: int,
        score: ScoreLike = "scaled_dot",
        normalizer: NormalizerLike = "softmax",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if queries < 1 or dim < 1:
            raise ConfigError(f"LearnedQueries needs at least one query of at least width 1; got {queries=}, {dim=}")
        self.queries = nn.Parameter(torch.empty(queries, dim).normal_(std=dim**-0.5))
        self.score = as_score(score)
        self.normalizer = as_normalizer(normalizer)
        self.dropout = checked_dropout(dropout)

    def forward(
        self,
        key: Float[Tensor, "batch keys key_dim"] | Prepared,
        value: Float[Tensor, "batch keys value_dim"] | None = None,
        *,
        mask: MaskLike | None = None,
        weights: bool = False,
    ) -> Attended:
        """Attend to a sequence.

        Args:
            key: X, `(batch, keys, key_dim)`.
            value: `(batch, keys, value_dim)`; None reads X itself.
            mask: usually `masks.padding(lengths)`; an item without a real key gets a zero context.
            weights: make the weights at once.

        Returns:
            Attended with the context `(batch, M · value_dim)` and the weights `(batch, M, keys)`.
        """
        plain = key.key if isinstance(key, Prepared) else key
        attended = attend(
            self.queries.to(plain.dtype).expand(plain.shape[0], -1, -1),
            key,
            plain if value is None else value,
            score=self.score,
            normalizer=self.normalizer,
            mask=mask,
            dropout=self.dropout if self.training else 0.0,
            weights=weights,
        )
        assert attended.context is not None
        return attended.with_context(attended.context.flatten(1))

    def extra_repr(self) -> str:
        """Sizes and rate, for `print(module)`."""
        queries, dim = self.queries.shape
        return f"{queries=}, {dim=}, dropout={self.dropout}"
