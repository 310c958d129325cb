"""Positions as a bias on the scores: a number a head and distance, learned (T5) or given (ALiBi)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.parts.position import POSITIONS, Position
from regard.errors import ConfigError


@POSITIONS.register("alibi")
class Alibi(Position):
    """Subtracts slope · distance from each head's scores (Press 2022); nothing is learned.

    Under a causal mask this is the paper's m · [−(i−1), …, −1, 0]; without one the distance counts both ways.

    Args:
        heads: any number; the slopes of numbers that aren't powers of two are the paper's as well.
    """

    kind = "bias"

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)

    def bias(
        self, query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
    ) -> Float[Tensor, "batch heads queries keys"]:
        """What is added to the scores, in float32."""
        distance = _relative(query_positions, key_positions).abs().unsqueeze(1)
        slopes = torch.tensor(self.slopes, dtype=torch.float32, device=distance.device)
        return -slopes[:, None, None] * distance

    forward = bias

    def extra_repr(self) -> str:
        """The number of heads, for `print(module)`."""
        return f"heads={len(self.slopes)}"


def alibi_slopes(heads: int) -> list[float]:
    """The slopes of Press 2022, section 3: 2^(−8/n), 2^(−16/n), … for n heads, n a power of two.

    Otherwise those of the power of two below, followed by every other slope of the power above (the paper's
    footnote on other numbers of heads).

    Raises:
        ConfigError: fewer than one head.
    """
    if heads < 1:
        raise ConfigError(f"alibi: heads must be at least 1, got {heads}")
    below = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (head + 1) / below) for head in range(below)]
    return slopes + [2.0 ** (-4 * (2 * head + 1) / below) for head in range(heads - below)]


@POSITIONS.register("t5")
class T5(Position):
    """One learned number for each head and bucket of distance (Raffel 2020, section 2.1).

    Half of the buckets are single distances, the others widen logarithmically up to `max_distance`; all distances
    beyond it share the last.

    Args:
        heads: of the scores.
        buckets: in all; T5 has 32.
        max_distance: from here on everything is in the last bucket; T5 has 128.
        bidirectional: half of the buckets for keys before the query, half for keys after it (an encoder); otherwise
            all for keys before it, and keys after it count as distance 0 (a decoder).
    """

    kind = "bias"

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        self.edges = t5_edges(buckets // 2 if bidirectional else buckets, max_distance)
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.weight = nn.Parameter(torch.empty(buckets, heads).normal_(std=0.02))

    def bias(
        self, query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
    ) -> Float[Tensor, "batch heads queries keys"]:
        """What is added to the scores, in the type of the learned numbers."""
        bucket = self.bucket(_relative(query_positions, key_positions))
        return self.weight[bucket].permute(0, 3, 1, 2)

    forward = bias

    def bucket(self, relative: Int[Tensor, "batch queries keys"]) -> Int[Tensor, "batch queries keys"]:
        """The bucket of each distance, key minus query."""
        distance = relative.abs() if self.bidirectional else (-relative).clamp(min=0)
        edges = torch.tensor(self.edges, dtype=distance.dtype, device=distance.device)
        bucket = torch.bucketize(distance, edges, right=True)
        return bucket + (relative > 0) * (self.weight.shape[0] // 2) if self.bidirectional else bucket

    def extra_repr(self) -> str:
        """Sizes, for `print(module)`."""
        buckets, heads = self.weight.shape
        return f"{heads=}, {buckets=}, max_distance={self.max_distance}, bidirectional={self.bidirectional}"


def t5_edges(buckets: int, max_distance: int) -> list[int]:
    """The first distance of each bucket after the first, in whole numbers: no device rounds a logarithm its own way.

    With e = buckets // 2, bucket b ≤ e begins at distance b, and bucket b > e at the first distance d where
    e + (buckets − e) · log(d/e) / log(max_distance/e) reaches b.

    Raises:
        ConfigError: too few buckets, or a maximal distance that they do not reach.
    """
    exact = buckets // 2
    if exact < 1 or max_distance <= exact:
        raise ConfigError(
            f"t5: each direction needs at least 2 buckets and a max_distance above half of them;"
            f" got {buckets} buckets a direction and max_distance={max_distance}"
        )
    wide, distance = buckets - exact, exact
    edges = list(range(1, exact + 1))
    for step in range(1, wide):
        while distance**wide * exact**step < max_distance**step * exact**wide:
            distance += 1
        edges.append(distance)
    return edges


def _relative(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """(batch, queries, keys): key minus query."""
    return key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)
