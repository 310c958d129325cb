"""Score: how well does each key fit each query? Modules over their twins in `functional.py`; (…, queries, keys).

A score is a small module in two halves: `prepare(key)` is done once a sequence, the call once for each set of queries.
`general` and `location` follow Luong, Pham & Manning (2015), `additive` Bahdanau, Cho & Bengio (2015), `scaled_dot`
Vaswani et al. (2017), `cosine` Graves, Wayne & Danihelka (2014), `location_aware` Chorowski et al. (2015).
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.parts.functional import (
    additive_pairs,
    check_heads,
    check_previous,
    check_width,
    checked_size,
    feed_forward,
    located_pairs,
    location,
    location_features,
    per_query,
    unit,
    wide,
)
from regard.attention.parts.projection import project_each
from regard.attention.parts.score_base import DotProduct, LoopForm, Prepared, Score, scores
from regard.errors import ConfigError, ShapeError
from regard.kernels.additive import inductor
from regard.kernels.additive.additive import serves
from regard.kernels.native import compiler


def score(name: str, **sizes: Any) -> Score:
    """Make the score of that name, e.g. `score("additive", query_dim=5, key_dim=7, hidden_dim=11)`.

    Raises:
        ConfigError: an unknown name (with the nearest one) or sizes that do not fit.
    """
    return scores.make(name, **sizes)


@scores.register("dot")
class Dot(DotProduct):
    """`q · k`; query and key have one width."""

    def dot_form(self, query: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, float]:
        """The query, and what is compared with it, as they are."""
        self.check_widths(query, prepared.projected)
        return query, prepared.projected, self._scale(query.shape[-1])

    def check_widths(self, query: Tensor, right: Tensor) -> None:
        """Whether queries can be compared with what is prepared of the keys.

        Raises:
            ShapeError: they have another width.
        """
        if query.shape[-1] != right.shape[-1]:
            raise ShapeError(
                f"a dot product needs one width: query has shape {tuple(query.shape)}, key {tuple(right.shape)}; "
                'use score("general", query_dim=…, key_dim=…) for two widths'
            )

    def _scale(self, dim: int) -> float:
        return 1.0


@scores.register("scaled_dot")
class ScaledDot(Dot):
    """`q · k / √d` (Vaswani 2017, eq. 1).

    Args:
        scale: instead of 1/√d.
    """

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale

    def _scale(self, dim: int) -> float:
        if self.scale is not None:
            return self.scale
        return 1.0 / math.sqrt(dim) if dim else 1.0


@scores.register("general", "bilinear")
class General(DotProduct):
    """`qᵀ W k`, W of shape (query_dim, key_dim); with a rank, W = UᵀV and the score is (Uq)·(Vk).

    Args:
        query_dim: width of the queries.
        key_dim: width of the keys.
        rank: None for the full W; otherwise the number of rows of U `(rank, query_dim)` and V `(rank, key_dim)`.
    """

    def __init__(self, query_dim: int, key_dim: int, rank: int | None = None) -> None:
        super().__init__()
        self.query_dim, self.key_dim, self.rank = query_dim, key_dim, rank
        if rank is None:
            self.weight = _matrix(query_dim, key_dim)
        else:
            self.query_weight = _matrix(rank, query_dim)
            self.key_weight = _matrix(rank, key_dim)

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """The keys as they are, or with a rank `V k`, `(batch, [heads,] keys, rank)`."""
        check_width("key", key, self.key_dim)
        full = self.rank is None
        return Prepared(key, key if full else project_each(lambda rows: F.linear(rows, self.key_weight), key))

    def dot_form(self, query: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, float]:
        """`Wᵀ q`, or with a rank `U q`; and what is prepared."""
        check_width("query", query, self.query_dim)
        left = torch.matmul(query, self.weight) if self.rank is None else F.linear(query, self.query_weight)
        check_width("the prepared key", prepared.projected, left.shape[-1])
        return left, prepared.projected, 1.0


@scores.register("additive", "concat")
class Additive(Score):
    """`vᵀ tanh(W q + U k)` (Bahdanau 2015, A.1.2); the three widths are independent.

    Args:
        query_dim: width of the queries.
        key_dim: width of the keys.
        hidden_dim: width of v.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.query_dim, self.key_dim, self.hidden_dim = query_dim, key_dim, checked_size("hidden_dim", hidden_dim)
        self.query_weight, self.key_weight = _matrix(hidden_dim, query_dim), _matrix(hidden_dim, key_dim)
        self.vector = nn.Parameter(torch.empty(hidden_dim))
        nn.init.uniform_(self.vector, -1 / math.sqrt(hidden_dim), 1 / math.sqrt(hidden_dim))

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """`U k`, `(batch, [heads,] keys, hidden_dim)`."""
        check_width("key", key, self.key_dim)
        return Prepared(key, project_each(lambda rows: F.linear(rows, self.key_weight), key))

    def forward(
        self, query: Float[Tensor, "*lead queries query_dim"], prepared: Prepared
    ) -> Float[Tensor, "*lead queries keys"]:
        """`vᵀ tanh(W q + U k)` of each pair."""
        return additive_pairs(*self.pair_form(query, prepared), prepared=True)

    def pair_form(self, query: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, Tensor]:
        """What a pair's score is made of: a, b and v of `vᵀ tanh(a + b)`."""
        check_width("query", query, self.query_dim)
        check_width("the prepared key", prepared.projected, self.hidden_dim)
        return F.linear(query, self.query_weight), prepared.projected, self.vector

    def in_blocks(self, query: Float[Tensor, "*lead queries query_dim"], keys: int, **now: Any) -> str | None:
        """See `Score.in_blocks`."""
        numbers = math.prod(query.shape[:-1]) * keys * self.hidden_dim
        if inductor.serves(query, numbers):
            return "pair by pair, in a kernel that torch's compiler writes for this GPU"
        if not serves(query, numbers):
            return None
        return f"of two exponentials, a product and a division for each pair, {compiler.how('additive/additive')}"


@scores.register("cosine")
class Cosine(DotProduct):
    """`β · cos(q, k)` (Graves 2014, eq. 5–6).

    Args:
        strength: β, a number or a tensor of shape (), (batch,), (batch, queries) or (batch, heads, queries), where an
            axis of 1 serves all. A β that changes by step is given by making the score at the step: it has no
            parameters.
    """

    def __init__(self, strength: float | Tensor = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """Keys of length 1."""
        return Prepared(key, project_each(unit, key))

    def dot_form(self, query: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, float]:
        """`β q / |q|`, and keys of length 1."""
        right = prepared.projected
        self.check_widths(query, right)
        if not isinstance(self.strength, Tensor):
            return unit(query), right, float(self.strength)
        return unit(query) * per_query(self.strength, query, "strength"), right, 1.0

    def loop_form(self, query: Tensor, key: Tensor, prepared: Prepared | None) -> LoopForm:
        """The vectors as they are, where the loop divides them by their lengths."""
        if type(self) is not Cosine:  # it may have another `dot_form`
            return super().loop_form(query, key, prepared)
        compared = Prepared(key, wide(key)) if prepared is None else prepared
        if isinstance(self.strength, Tensor):
            left, right, scale = self.dot_form(query, compared)
            return LoopForm(left, right, scale, (False, prepared is None))
        self.check_widths(query, compared.projected)
        return LoopForm(wide(query), compared.projected, float(self.strength), (True, prepared is None))

    def check_widths(self, query: Tensor, right: Tensor) -> None:
        """Whether queries are as wide as what they are compared with.

        Raises:
            ShapeError: they are not.
        """
        if query.shape[-1] != right.shape[-1]:
            raise ShapeError(f"cosine needs one width: query {tuple(query.shape)}, key {tuple(right.shape)}")


@scores.register("location")
class Location(Score):
    """`W s`, scores of fixed positions from the query alone (Luong 2015, eq. 8).

    Args:
        query_dim: width of the queries.
        positions: the most keys there may be; fewer are sliced, more are an error.
    """

    by_content = False

    def __init__(self, query_dim: int, positions: int) -> None:
        super().__init__()
        self.query_dim = query_dim
        self.weight = _matrix(positions, query_dim)

    def forward(
        self, query: Float[Tensor, "*lead queries query_dim"], prepared: Prepared
    ) -> Float[Tensor, "*lead queries keys"]:
        """`W s`, cut to the number of keys.

        Raises:
            ShapeError: more keys than positions.
        """
        check_width("query", query, self.query_dim)
        return location(query, self.weight, prepared.key.shape[-2])


@scores.register("feed_forward")
class FeedForward(Location):
    """One linear layer over [input; state], which the caller concatenates to the query (the tutorial variant).

    Args:
        query_dim: input width + state width.
        positions: the most keys there may be; fewer are sliced, more are an error.
    """

    def __init__(self, query_dim: int, positions: int) -> None:
        super().__init__(query_dim, positions)
        self.bias = nn.Parameter(torch.zeros(positions))

    def forward(
        self, query: Float[Tensor, "*lead queries query_dim"], prepared: Prepared
    ) -> Float[Tensor, "*lead queries keys"]:
        """`W [input; state] + b`, cut to the number of keys.

        Raises:
            ShapeError: more keys than positions.
        """
        check_width("query", query, self.query_dim)
        return feed_forward(query, self.weight, self.bias, prepared.key.shape[-2])


@scores.register("location_aware")
class LocationAware(Additive):
    """`vᵀ tanh(W q + U k + T f)`, f = F ∗ earlier weights (Chorowski 2015, eq. 8–9).

    With the sum of all earlier weights in their place it is coverage. They change by step and are bound at the call:
    `score.bind(previous=weights)`, of shape (batch, keys) or (batch, queries, keys); unbound they are 0.

    Args:
        query_dim: width of the queries.
        key_dim: width of the keys.
        hidden_dim: width of v.
        channels: number of filters in F.
        kernel_size: width of a filter in positions, odd.

    Raises:
        ConfigError: an even kernel size.
    """

    by_content = False

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int, channels: int = 8, kernel_size: int = 5) -> None:
        super().__init__(query_dim, key_dim, hidden_dim)
        if kernel_size % 2 == 0:
            raise ConfigError(f"kernel_size must be odd, so that a filter has a centre; it was {kernel_size}")
        self.features = nn.Conv1d(1, channels, kernel_size, padding=kernel_size // 2, bias=False)
        self.feature_weight = _matrix(hidden_dim, channels)

    def forward(
        self,
        query: Float[Tensor, "*lead queries query_dim"],
        prepared: Prepared,
        previous: Tensor | None = None,
    ) -> Float[Tensor, "*lead queries keys"]:
        """`vᵀ tanh(W q + U k + T f)` of each pair.

        Args:
            query: `(batch, [heads,] queries, query_dim)`.
            prepared: what `prepare` gave.
            previous: earlier weights, `(batch, keys)` or `(batch, queries, keys)`; None for 0.

        Raises:
            ShapeError: earlier weights of another shape.
        """
        query_side, key_side, vector = self.pair_form(query, prepared)
        if previous is None:
            return additive_pairs(query_side, key_side, vector, prepared=True)
        rows = tuple(query.shape[:-1])
        check_previous(previous, rows, prepared.key.shape[-2])
        features = location_features(previous, rows, self.features.weight, self.feature_weight)
        return located_pairs(query_side, key_side, features, vector)


class PerHead(Score):
    """One score a head, for queries and keys of shape (batch, heads, positions, dim).

    Args:
        each: the scores, in the order of the heads.
    """

    def __init__(self, each: Sequence[Score]) -> None:
        super().__init__()
        self.each = nn.ModuleList(each)
        self.by_content = all(one.by_content for one in each)

    def forward(
        self, query: Float[Tensor, "*lead queries query_dim"], prepared: Prepared
    ) -> Float[Tensor, "*lead queries keys"]:
        """Each head's scores.

        Raises:
            ShapeError: not as many heads as scores.
        """
        check_heads(query, len(self.each))
        by_head = []
        for head, one in enumerate(self.each):
            assert isinstance(one, Score)
            # `projected` is the key itself, from which a call may have cleared masked-out content.
            by_head.append(one(query[:, head], one.prepare(prepared.projected[:, head])))
        return torch.stack(by_head, dim=1)


def _matrix(rows: int, columns: int) -> nn.Parameter:
    weight = nn.Parameter(torch.empty(rows, columns))
    if weight.numel():
        nn.init.xavier_uniform_(weight)
    return weight
