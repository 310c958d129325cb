"""The errors that `attend` would raise while it computes, raised beforehand and without computing, for `explain`.

Steps of `refocus=` and parts of the caller's own are not checked: they raise when they are called.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from regard.attention.call.call import Call
from regard.attention.call.checks import check_sides
from regard.attention.modules.linear import FEATURE_MAPS, Linear
from regard.attention.parts.functional import check_heads, check_positions, check_previous, check_width, per_query
from regard.attention.parts.normalize import Sum, normalizers
from regard.attention.parts.relative import Shaw
from regard.attention.parts.score import (
    Additive,
    Cosine,
    Dot,
    FeedForward,
    General,
    Location,
    LocationAware,
    PerHead,
    ScaledDot,
)
from regard.attention.parts.score_base import Bound, Prepared
from regard.errors import MaskError


def refuse(call: Call) -> None:
    """Raise what `attend` would raise.

    Args:
        call: one whose parts are resolved.

    Raises:
        ShapeError: a score or a temperature does not fit.
        MaskError: the mask does not fit.
        ConfigError: a score is not bound to what it needs.
    """
    _check_mask(call)
    score, now = (call.score.score, call.score.now) if isinstance(call.score, Bound) else (call.score, {})
    _check_score(score, call.query, call.key, call.prepared, now)
    summed = type(score) is Linear and type(call.normalizer) is Sum
    if not summed and type(call.normalizer) in [normalizers.maker(name) for name in normalizers]:
        per_query(call.normalizer.temperature, call.query, "temperature")


def _check_mask(call: Call) -> None:
    """Draw the mask on the meta device: its shape is checked, and no number made."""
    try:
        call._replace(query=call.query.to("meta")).draw()
    except MaskError:
        raise
    except (RuntimeError, NotImplementedError, TypeError):  # a function that must see numbers
        return


# --- a check for each score: of query, key, the prepared key, and what the score is bound to -------------------------


def _check_score(score: Any, query: Tensor, key: Tensor, prepared: Prepared | None, now: dict[str, Any]) -> None:
    check = _CHECKS.get(type(score))
    if check is not None:
        check(score, query, key, prepared, **now)


def _dot(score: Dot | Cosine, query: Tensor, key: Tensor, prepared: Prepared | None) -> None:
    score.check_widths(query, key if prepared is None else prepared.projected)


def _general(score: General, query: Tensor, key: Tensor, prepared: Prepared | None) -> None:
    if prepared is None:
        check_width("key", key, score.key_dim)
    check_width("query", query, score.query_dim)
    if prepared is not None:
        width = score.key_dim if score.rank is None else score.rank
        check_width("the prepared key", prepared.projected, width)


def _cosine(score: Cosine, query: Tensor, key: Tensor, prepared: Prepared | None) -> None:
    _dot(score, query, key, prepared)
    per_query(score.strength, query, "strength")


def _linear(score: Linear, query: Tensor, key: Tensor, prepared: Prepared | None) -> None:
    if score.feature_map in FEATURE_MAPS.values():  # others may make any width of any
        check_sides(query, query, key, key if prepared is None else prepared.projected)


def _additive(score: Additive, query: Tensor, key: Tensor, prepared: Prepared | None) -> None:
    if prepared is None:
        check_width("key", key, score.key_dim)
    check_width("query", query, score.query_dim)
    if prepared is not None:
        check_width("the prepared key", prepared.projected, score.hidden_dim)


def _located(
    score: LocationAware, query: Tensor, key: Tensor, prepared: Prepared | None, previous: Tensor | None = None
) -> None:
    _additive(score, query, key, prepared)
    if previous is not None:
        check_previous(previous, tuple(query.shape[:-1]), key.shape[-2])


def _location(score: Location, query: Tensor, key: Tensor, prepared: Prepared | None) -> None:
    check_width("query", query, score.query_dim)
    check_positions(score.weight.shape[0], key.shape[-2])


def _per_head(score: PerHead, query: Tensor, key: Tensor, prepared: Prepared | None) -> None:
    check_heads(query, len(score.each))
    compared = key if prepared is None else prepared.projected
    share = query.shape[1] // key.shape[1]
    for head, one in enumerate(score.each):
        _check_score(one, query[:, head], compared[:, head // share], None, {})


def _shaw(
    score: Shaw,
    query: Tensor,
    key: Tensor,
    prepared: Prepared | None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
) -> None:
    score.placed(query, key, query_positions, key_positions)
    _check_score(score.score, query, key, prepared, {})


_CHECKS: dict[type, Callable[..., None]] = {
    Dot: _dot,
    ScaledDot: _dot,
    General: _general,
    Cosine: _cosine,
    Linear: _linear,
    Additive: _additive,
    LocationAware: _located,
    Location: _location,
    FeedForward: _location,
    PerHead: _per_head,
    Shaw: _shaw,
}
