"""Relative positions as vectors that the query is compared with as well: a score around a score (Shaw 2018)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.parts.functional import checked_size, full_precision, wide
from regard.attention.parts.position import POSITIONS
from regard.attention.parts.score import score
from regard.attention.parts.score_base import Prepared, Score
from regard.errors import ConfigError, ShapeError


@POSITIONS.register("shaw")
class Shaw(Score):
    """Adds q · a_(j−i) to each score, with one learned vector a distance (Shaw 2018, equation 4).

    e_ij = q_i · (k_j + a_clip(j−i)) / √d: the distance j − i is clipped at ±k, and the vectors are shared by the heads,
    as in the paper. Its second set of vectors, added to the values (equation 3), is left out: the paper's ablation
    finds no gain from it, and it would make the read depend on positions.

    The positions are bound at the call: `shaw.bind(query_positions=…, key_positions=…)`; `MultiHeadAttention` does so.

    Args:
        dim: width of the query (of one head).
        clip: k, the largest distance that has its own vector.
        score: the score around which it stands, a Score or a registered name.
        scale: of the added term; None is 1/√dim, that of `scaled_dot`.

    Raises:
        ConfigError: a width below 1, a clip below 0, or an unknown score.
    """

    kind = "score"
    by_content = False

    def __init__(self, dim: int, clip: int, score: Score | str = "scaled_dot", scale: float | None = None) -> None:
        super().__init__()
        if clip < 0:
            raise ConfigError(f"shaw: clip must be 0 or more, got {clip}")
        dim, self.score = checked_size("shaw: dim", dim), _made(score)
        self.clip, self.scale = clip, 1.0 / math.sqrt(dim) if scale is None else scale
        self.weight = nn.Parameter(torch.empty(2 * clip + 1, dim).normal_(std=0.02))

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """What the wrapped score makes of the keys."""
        return self.score.prepare(key)

    def forward(
        self,
        query: Float[Tensor, "*lead queries query_dim"],
        prepared: Prepared,
        query_positions: Int[Tensor, "#batch queries"] | None = None,
        key_positions: Int[Tensor, "#batch keys"] | None = None,
    ) -> Float[Tensor, "*lead queries keys"]:
        """The inner scores plus those of the distances.

        Raises:
            ConfigError: when no positions were bound.
        """
        query_positions, key_positions = self.placed(query, prepared.key, query_positions, key_positions)
        inner: Tensor = self.score(query, prepared)
        with full_precision(query):
            by_distance = torch.matmul(wide(query) * self.scale, wide(self.weight).T)  # (…, queries, 2k + 1)
        distance = key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)  # j − i, (batch, queries, keys)
        index = distance.clamp(-self.clip, self.clip) + self.clip
        if query.dim() == 4:
            index = index.unsqueeze(1)
        return inner + by_distance.gather(-1, index.expand(inner.shape))

    def placed(
        self, query: Tensor, key: Tensor, query_positions: Tensor | None, key_positions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The positions, if they were bound and all fits.

        Raises:
            ConfigError: positions that are missing.
            ShapeError: queries of another width, or positions that are not one for each query and key.
        """
        if query_positions is None or key_positions is None:
            raise ConfigError("shaw needs positions at the call: shaw.bind(query_positions=…, key_positions=…)")
        if query.shape[-1] != self.weight.shape[1]:
            raise ShapeError(f"shaw was made for queries of width {self.weight.shape[1]}, got {tuple(query.shape)}")
        for name, positions, of in (("query", query_positions, query), ("key", key_positions, key)):
            if positions.shape[-1] not in (1, of.shape[-2]):
                raise ShapeError(f"{name}_positions are {tuple(positions.shape)}, but {name} has {tuple(of.shape)}")
        return query_positions, key_positions

    def extra_repr(self) -> str:
        """Sizes, for `print(module)`."""
        return f"dim={self.weight.shape[1]}, clip={self.clip}, scale={self.scale:.4g}"


def _made(part: Score | str) -> Score:
    return score(part) if isinstance(part, str) else part
