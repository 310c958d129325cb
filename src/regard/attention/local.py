"""Local attention: a query looks at a window around one position (Luong, Pham & Manning 2015, section 3.2).

`Monotonic` (local-m) puts the window where the query itself stands, `Predictive` (local-p) where the query says. Both
give what `attend` takes: a mask, and for local-p a Gaussian that refocuses the weights. `LocalAttention` is the module.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import local_window, masks
from regard.attention.attend import Attended, Explanation, attend, explain
from regard.attention.call import NormalizerLike, ScoreLike, as_normalizer, as_score, checked_dropout
from regard.attention.functional import wide
from regard.attention.guard import finite_rows
from regard.attention.masks import Mask, MaskLike
from regard.attention.refocus import gaussian_window
from regard.attention.score import Bound, Prepared, Score
from regard.errors import ConfigError, ShapeError
from regard.kernels.calls import is_plain


class Focus(NamedTuple):
    """Where the queries of one call look.

    Attributes:
        center: p, `(batch, queries)`, in key positions from 0.
        mask: the keys no further than the radius from it, without those beyond the item's length.
        refocus: what follows the normalizer.
    """

    center: Tensor
    mask: Mask
    refocus: tuple[Callable[[Tensor], Tensor], ...]


class Monotonic(nn.Module):
    """local-m: query t looks around key t, p[t] = t; a window beyond the end is empty and reads 0.

    Args:
        radius: D; the window holds the keys from p − D to p + D.
    """

    def __init__(self, radius: float) -> None:
        super().__init__()
        self.radius = _checked(radius)

    def forward(
        self,
        query: Float[Tensor, "batch queries query_dim"],
        lengths: Int[Tensor, " batch"],
        positions: Int[Tensor, "#batch queries"] | int = 0,
    ) -> Focus:
        """Where each query looks.

        Args:
            query: only its shape matters.
            lengths: the number of real keys of each item; they come first.
            positions: of the queries, `(batch, queries)`, or that of the first one, such as a decoder's step.
        """
        batch, queries = query.shape[:2]
        if isinstance(positions, int):
            positions = positions + torch.arange(queries, device=query.device).unsqueeze(0)
        center = positions.expand(batch, queries)
        return Focus(center, masks.around(center, self.radius) & masks.padding(lengths), self.refocus(center))

    def refocus(self, center: Tensor) -> tuple[Callable[[Tensor], Tensor], ...]:
        """What follows the normalizer: nothing."""
        return ()

    def extra_repr(self) -> str:
        return f"radius={self.radius}"


class Predictive(nn.Module):
    """local-p: p = S · sigmoid(vᵀ tanh(W h)) (equation 9), and a Gaussian at p with σ = D/2 (equation 10).

    S is the item's real length. The window's hard edge has no gradient; p learns through the Gaussian.

    Args:
        radius: D; the window holds the keys from p − D to p + D.
        query_dim: width of the query h.
        hidden_dim: width of v; None is that of the query, as in the paper.
    """

    def __init__(self, radius: float, query_dim: int, hidden_dim: int | None = None) -> None:
        super().__init__()
        self.radius = _checked(radius)
        if radius == 0:
            raise ConfigError("local-p needs a radius above 0: its Gaussian has half the radius as standard deviation")
        hidden_dim = query_dim if hidden_dim is None else hidden_dim
        self.hidden = nn.Linear(query_dim, hidden_dim, bias=False)
        self.vector = nn.Linear(hidden_dim, 1, bias=False)

    def forward(
        self,
        query: Float[Tensor, "batch queries query_dim"],
        lengths: Int[Tensor, " batch"],
        positions: Int[Tensor, "#batch queries"] | int = 0,
    ) -> Focus:
        """Where each query looks.

        Args:
            query: h.
            lengths: S, the number of real keys of each item; they come first.
            positions: not used: the query decides.
        """
        if lengths.shape != query.shape[:1]:
            raise ShapeError(f"lengths are one number an item: {tuple(lengths.shape)} for query {tuple(query.shape)}")
        rows = query  # one of padding that is not finite must not touch the gradient of W and v
        if not is_plain(query) or not bool(torch.isfinite(wide(query.detach()).sum())):
            rows, _ = finite_rows(query)
        share = torch.sigmoid(wide(self.vector(torch.tanh(self.hidden(rows)))).squeeze(-1))
        center = lengths.to(query.device).unsqueeze(-1) * share
        mask = masks.around(center, self.radius) & masks.padding(lengths)
        return Focus(center, mask, self.refocus(center))

    def refocus(self, center: Tensor) -> tuple[Callable[[Tensor], Tensor], ...]:
        """What follows the normalizer: the Gaussian at these centers, whose positions count from the first weight."""
        return (gaussian_window(center, self.radius / 2),)

    def extra_repr(self) -> str:
        return f"radius={self.radius}"


class LocalAttention(nn.Module):
    """Attention over a window, with any score.

    On a CPU only the window's keys are scored (by dot products, an additive score or one of fixed positions) and read;
    the weights are filled up with zeros when somebody looks. `explain` says whether a call takes that path.

    Args:
        score: a Score, or the name of one without parameters.
        radius: D, in positions; the paper's is 10.
        kind: "monotonic" (local-m) or "predictive" (local-p).
        query_dim: width of the query; local-p needs it.
        normalizer: over the window; a Normalizer or its name.
        dropout: on the weights, in training only.
    """

    def __init__(
        self,
        score: ScoreLike,
        radius: float,
        kind: str = "monotonic",
        query_dim: int | None = None,
        normalizer: NormalizerLike = "softmax",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score: Any = as_score(score)
        self.normalizer = as_normalizer(normalizer)
        self.focus = _focus(kind, radius, query_dim)
        self.dropout = checked_dropout(dropout)

    def prepare(self, key: Float[Tensor, "batch keys key_dim"]) -> Prepared:
        """What depends on the keys alone, made once a sequence and passed in the key's place."""
        prepared: Prepared = self.score.prepare(key)
        return prepared

    def forward(
        self,
        query: Float[Tensor, "batch queries query_dim"],
        key: Float[Tensor, "batch keys key_dim"] | Prepared,
        value: Float[Tensor, "batch keys value_dim"] | None = None,
        *,
        lengths: Int[Tensor, " batch"],
        positions: Int[Tensor, "#batch queries"] | int = 0,
        mask: MaskLike | None = None,
        bias: Float[Tensor, "..."] | None = None,
        weights: bool = False,
        **now: object,
    ) -> Attended:
        """Attend within the window.

        Args:
            query: `(batch, queries, query_dim)`.
            key: `(batch, keys, key_dim)`, or what `prepare` gave.
            value: `(batch, keys, value_dim)`; None is the pointer.
            lengths: the number of real keys of each item; they come first.
            positions: of the queries, `(batch, queries)`, or that of the first one; local-m needs them.
            mask: a further one.
            bias: added to the scores.
            weights: make the weights at once.
            **now: bound to the score for this call, e.g. `previous=weights`.
        """
        focus: Focus = self.focus(query, lengths, positions)
        if local_window.against(query, key, value, self._score(now), lengths) is None:
            plain = key.key if isinstance(key, Prepared) else key
            places = local_window.places(focus.center, self.focus.radius, lengths, plain.shape[1], mask)
            attended = local_window.attend_in_window(
                query,
                key,
                value,
                places=places,
                score=self.score,
                normalizer=self.normalizer,
                bias=bias,
                refocus=self.focus.refocus(focus.center - places.first),
                dropout=self.dropout if self.training else 0.0,
            )
            if attended is not None:
                if weights:
                    _ = attended.weights, attended.log_weights  # made on access, and kept
                return attended
        return attend(
            query,
            key,
            value,
            score=self._score(now),
            normalizer=self.normalizer,
            mask=focus.mask if mask is None else focus.mask & mask,
            bias=bias,
            refocus=focus.refocus,
            dropout=self.dropout if self.training else 0.0,
            weights=weights,
        )

    def explain(
        self,
        query: Float[Tensor, "batch queries query_dim"],
        key: Float[Tensor, "batch keys key_dim"] | Prepared,
        value: Float[Tensor, "batch keys value_dim"] | None = None,
        *,
        lengths: Int[Tensor, " batch"],
        positions: Int[Tensor, "#batch queries"] | int = 0,
        mask: MaskLike | None = None,
        bias: Float[Tensor, "..."] | None = None,
        **now: object,
    ) -> Explanation:
        """Which path a call with these arguments takes, and why: "local" is over the windows alone.

        A call in which something visible is not finite leaves that path once it has met it, for that of `attend`.
        """
        reason = local_window.against(query, key, value, self._score(now), lengths)
        if reason is None:
            return Explanation(
                "local", ("the windows are small beside all keys: only their keys are looked at",), False
            )
        focus: Focus = self.focus(query, lengths, positions)
        found = explain(
            query,
            key,
            value,
            score=self._score(now),
            normalizer=self.normalizer,
            mask=focus.mask if mask is None else focus.mask & mask,
            bias=bias,
            refocus=focus.refocus,
            dropout=self.dropout if self.training else 0.0,
        )
        return Explanation(found.path, (f"all keys are looked at: {reason}", *found.reasons), found.guarded)

    def _score(self, now: dict[str, object]) -> Score | Bound:
        made: Score | Bound = self.score.bind(**now) if now else self.score
        return made


def _focus(kind: str, radius: float, query_dim: int | None) -> Monotonic | Predictive:
    if kind == "monotonic":
        return Monotonic(radius)
    if kind != "predictive":
        raise ConfigError(f'kind must be "monotonic" (local-m) or "predictive" (local-p), got {kind!r}')
    if query_dim is None:
        raise ConfigError("local-p predicts its position from the query: give query_dim, the query's width")
    return Predictive(radius, query_dim)


def _checked(radius: float) -> float:
    if not radius >= 0:
        raise ConfigError(f"a radius counts positions from 0; it was {radius}")
    return radius
