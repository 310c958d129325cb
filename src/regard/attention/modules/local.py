"""Local attention: a query attends to a window around one position (Luong, Pham & Manning 2015, section 3.2).

`Monotonic` (local-m) puts the window where the query itself stands, `Predictive` (local-p) where the query says. Both
give what `attend` takes: a mask, and for local-p a Gaussian that refocuses the weights. `LocalAttention` is the module.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.call.call import NormalizerLike, ScoreLike, as_normalizer, as_score, checked_dropout
from regard.attention.call.guard import finite_rows
from regard.attention.explain import Explanation, explain
from regard.attention.parts.focus import Focus
from regard.attention.parts.functional import wide
from regard.attention.parts.mask_kinds import Mask, MaskLike
from regard.attention.parts.score_base import Bound, Prepared, Score
from regard.errors import ConfigError, ShapeError, quoted
from regard.kernels.autograd.plain import is_plain
from regard.kernels.local import softmax as local_softmax


def _check(query: Tensor, lengths: Tensor) -> None:
    if query.ndim != 3:
        raise ShapeError(
            "a window is around one position of each query: (batch, queries, query_dim) is expected, not "
            f"{tuple(query.shape)}"
        )
    if not isinstance(lengths, Tensor):
        raise ShapeError(f"lengths are a whole number an item, a tensor (batch,); they were {quoted(lengths)}")
    if lengths.shape != query.shape[:1]:
        raise ShapeError(f"lengths are one number an item: {tuple(lengths.shape)} for query {tuple(query.shape)}")


class Monotonic(nn.Module):
    """local-m: query t attends around key t, p[t] = t; a window beyond the end is empty and gives a zero context.

    Args:
        radius: D; the window holds the keys from p − D to p + D.

    Raises:
        ConfigError: a radius below 0.
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
        """Each query's center and window.

        Args:
            query: only its shape matters.
            lengths: the number of real keys of each item; they come first.
            positions: of the queries, `(batch, queries)`, or that of the first one, such as a decoder's step.
        """
        _check(query, lengths)
        batch, queries = query.shape[:2]
        if isinstance(positions, int):
            positions = positions + torch.arange(queries, device=query.device).unsqueeze(0)
        center = positions.expand(batch, queries)
        return Focus(center, self.radius, 0.0, lengths)

    def extra_repr(self) -> str:
        """The radius, for `print(module)`."""
        return f"radius={self.radius}"


class Predictive(nn.Module):
    """local-p: p = S · sigmoid(vᵀ tanh(W h)) (equation 9), and a Gaussian at p with σ = D/2 (equation 10).

    S is the item's real length. The window's hard edge has no gradient; p learns through the Gaussian.

    Args:
        radius: D; the window holds the keys from p − D to p + D.
        query_dim: width of the query h.
        hidden_dim: width of v; None is that of the query, as in the paper.

    Raises:
        ConfigError: a radius that is not above 0.
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
        """Each query's center and window.

        Args:
            query: h.
            lengths: S, the number of real keys of each item; they come first.
            positions: not used: the query decides.
        """
        _check(query, lengths)
        return Focus(self._center(query, lengths.to(query.device)), self.radius, self.radius / 2, lengths)

    def _center(self, query: Tensor, lengths: Tensor) -> Tensor:
        """S · sigmoid(vᵀ tanh(W h)). A row of padding that is not finite must not touch the gradient of W and v."""
        if is_plain(query) and query.numel():
            hidden = self.hidden(query)
            if local_softmax.predicts(hidden, self.vector):
                center = local_softmax.predict(hidden, self.vector.weight, lengths)
                if center is not None:
                    return center
            # Of a row that is not finite no number of `hidden` is.
            elif math.isfinite(hidden.detach()[..., :1].sum().item()):
                alone = not torch.is_grad_enabled() and local_softmax.is_plain_projection(
                    self.hidden
                )  # no one else holds `hidden`
                return lengths.unsqueeze(-1) * self._share(hidden.tanh_() if alone else torch.tanh(hidden))
        return lengths.unsqueeze(-1) * self._share(torch.tanh(self.hidden(finite_rows(query)[0])))

    def _share(self, bounded: Tensor) -> Tensor:
        return torch.sigmoid(wide(self.vector(bounded)).squeeze(-1))

    def extra_repr(self) -> str:
        """The radius, for `print(module)`."""
        return f"radius={self.radius}"


class LocalAttention(nn.Module):
    """Attention over a window, with any score.

    On a CPU only the window's keys are scored (by dot products, an additive score or one of fixed positions) and read;
    the weights are filled up with zeros on access. `explain` says whether a call takes that path.

    Args:
        score: a Score, or the name of one without parameters.
        radius: D, in positions; the paper's is 10.
        kind: "monotonic" (local-m) or "predictive" (local-p).
        query_dim: width of the query; local-p needs it.
        normalizer: over the window; a Normalizer or its name.
        dropout: on the weights, in training only.

    Raises:
        ConfigError: an unknown kind; a radius below 0; local-p without `query_dim`.
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
        return attend(
            query,
            key,
            value,
            score=self._score(now),
            normalizer=self.normalizer,
            mask=_masked(focus, mask),
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
        """Which path a call with these arguments takes, and why: "local" is over the windows alone."""
        focus: Focus = self.focus(query, lengths, positions)
        return explain(
            query,
            key,
            value,
            score=self._score(now),
            normalizer=self.normalizer,
            mask=_masked(focus, mask),
            bias=bias,
            refocus=focus.refocus,
            dropout=self.dropout if self.training else 0.0,
        )

    def _score(self, now: dict[str, object]) -> Score | Bound:
        made: Score | Bound = self.score.bind(**now) if now else self.score
        return made


def _masked(focus: Focus, mask: MaskLike | None) -> Mask:
    return focus.mask if mask is None else focus.mask & mask


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
