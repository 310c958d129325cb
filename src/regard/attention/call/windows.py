"""Attention over the keys of each query's own window alone: the others are neither scored nor normalised nor read.

What is done is the formula in its order: score, bias, normalize, refocus, read. A call in which something visible is
not finite gets None, for paths that keep such content where it belongs.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.attended import Attended, Source
from regard.attention.call.call import Call
from regard.attention.call.checks import are_plain_tensors
from regard.attention.call.formula import ready
from regard.attention.parts.focus import Focus
from regard.attention.parts.functional import check_width, wide
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.normalize import Normalizer, is_softmax
from regard.attention.parts.refocus import gaussian_window
from regard.attention.parts.score import Dot, General, Location, ScaledDot
from regard.attention.parts.score_base import DotProduct, Prepared, Score
from regard.kernels.fallback import query_chunks
from regard.kernels.local import local, softmax as local_softmax

FARTHEST = 2**18
"""Up to so many keys a center in float32 is exact to a small part of a position."""


class WindowKeys(NamedTuple):
    """Which keys are in each query's window.

    Attributes:
        first: where its window begins.
        keep: which of them it may attend to.
    """

    first: Int[Tensor, "batch queries"]
    keep: Bool[Tensor, "batch queries window"]

    @property
    def keys(self) -> Int[Tensor, "batch queries window"]:
        """The positions of the window's keys."""
        return self.first.unsqueeze(-1) + torch.arange(self.keep.shape[-1], device=self.first.device)

    def of(self, pairs: Tensor, keys: int) -> Tensor:
        """What (batch, queries, keys), or what is broadcast to it, says of the window."""
        return pairs.expand(*self.first.shape, keys).gather(-1, self.keys)

    def spread(self, window: Tensor, keys: int, elsewhere: float) -> Tensor:
        """(batch, queries, keys) from (batch, queries, window)."""
        whole = window.new_full((*window.shape[:2], keys), elsewhere)
        return whole.scatter(-1, self.keys, window)


def window_size(radius: float, keys: int) -> int:
    """At most ⌊2D⌋ + 1 keys are within D of a place; and one more on each side, whatever is rounded."""
    return int(min(2 * radius + 3, keys))


def window_keys(focus: Focus, keys: int, mask: Tensor | None = None) -> WindowKeys:
    """The windows as `focus.mask` has them, with a further mask as it was drawn, `(batch or 1, queries or 1, keys)`."""
    center = focus.center.detach()
    center = center.to(torch.float64 if center.dtype == torch.float64 else torch.float32)
    number = torch.finfo(center.dtype)
    reach = focus.radius + 8 * number.eps * center.abs().clamp(1.0, number.max)
    window = window_size(focus.radius, keys)
    first = (center - reach).floor().nan_to_num(0.0).clamp(0, keys - window).long()
    at = first.unsqueeze(-1) + torch.arange(window, device=first.device)
    keep = (at.to(center.dtype) - center.unsqueeze(-1)).abs() <= reach.unsqueeze(-1)
    found = WindowKeys(first, keep & (at < focus.lengths[:, None, None]))
    if mask is None:
        return found
    return WindowKeys(first, found.keep & found.of(mask, keys))


def attend_in_window(call: Call, focus: Focus, mask: Mask | None) -> Attended | None:
    """A call whose queries attend within windows; None where an attended key or value is not finite.

    Args:
        call: one that the path "local" takes.
        focus: the center and window of each query.
        mask: a further one.
    """
    query, value, bias, sizes, normalizer = call.query, call.value, call.bias, call.sizes, call.normalizer
    prepared, score, dropout = ready(call), call.score, call.dropout
    assert isinstance(score, Score)
    if (
        (mask is None and bias is None and dropout == 0 and value is not None)
        and isinstance(score, DotProduct)
        and is_softmax(normalizer)
        and local_softmax.serves(query, prepared.projected, value, focus.center)
    ):
        return _softmax_in_window(query, prepared, value, focus, score, normalizer)
    found = window_keys(focus, sizes.keys, call.drawn(mask))
    if not are_plain_tensors(found.first, found.keep, bias):  # a mask or a bias may be of any class
        return None
    scores, finite = _scores(query, prepared, score, found)
    if bias is not None:
        scores = scores + wide(found.of(bias, sizes.keys))
    normalized = normalizer(scores, found.keep)
    log_prob = None
    if normalizer.draws:
        chosen = normalized.detach() > 0.5
        log_prob = torch.where(chosen, normalizer.log_weights(scores, found.keep), 0.0).sum(-1).to(query.dtype)
    weights = _refocused(normalized, found, focus).to(scores.dtype)  # a center may be of a wider type
    context = None
    if value is not None:
        read = F.dropout(weights, dropout) if dropout > 0 else weights
        context = local.mix(read, value, found.first)
        # Rows that are keys as well were met among the scores.
        finite = finite + (weights if value is prepared.key else context).detach().sum()
        context = context.to(query.dtype)
    else:
        finite = finite + weights.detach().sum()
    if not bool(torch.isfinite(finite)):
        return None

    def whole() -> Tensor:
        return found.spread(weights, sizes.keys, 0.0).to(query.dtype)

    def logs() -> Tensor:
        return found.spread(normalizer.log_weights(scores, found.keep), sizes.keys, -torch.inf).to(query.dtype)

    return Attended(context, log_prob=log_prob, source=Source(whole, logs))


def _softmax_in_window(
    query: Tensor, ready: Prepared, value: Tensor, focus: Focus, score: DotProduct, normalizer: Normalizer
) -> Attended | None:
    """Softmax of dot products, which scores, weighs and reads a window at once; the weights are made on access."""
    left, right, factor = score.dot_form(query, ready)
    check_width("key", right, left.shape[-1])
    keys = right.shape[1]
    window = local_softmax.Window(focus.radius, window_size(focus.radius, keys), focus.sigma, factor)
    attended = local_softmax.window_attention(left, right, value, focus.center, focus.lengths, window)
    # What is no linear map of the query may not show that it is not finite.
    if attended is None or (type(score) not in _LINEAR and not bool(torch.isfinite(query.detach().sum()))):
        return None
    context, scores, first = attended

    def whole() -> Tensor:
        found = WindowKeys(first, scores.detach() != -torch.inf)
        return found.spread(_refocused(normalizer(scores), found, focus), keys, 0.0)

    def logs() -> Tensor:
        return WindowKeys(first, scores.detach() != -torch.inf).spread(normalizer.log_weights(scores), keys, -torch.inf)

    return Attended(context, source=Source(whole, logs))


_LINEAR = (Dot, ScaledDot, General)


def _refocused(weights: Tensor, found: WindowKeys, focus: Focus) -> Tensor:
    """With the Gaussian, whose positions count from the first weight."""
    if focus.sigma == 0:
        return weights
    return gaussian_window(focus.center - found.first, focus.sigma)(weights)


def _scores(query: Tensor, ready: Prepared, score: Score, found: WindowKeys) -> tuple[Tensor, Tensor]:
    """Of the windows' keys, and a number that is not finite if a query or one of these keys is not."""
    first, window = found.first, found.keep.shape[-1]
    if isinstance(score, DotProduct):
        left, right, factor = score.dot_form(query, ready)
        check_width("key", right, left.shape[-1])
        scores = local.dots(wide(left) if factor == 1 else wide(left) * factor, right, first, window)
        # Of a key that is not finite `prepare` made NaN; a query may have become 0, where it gives a direction alone.
        return scores, scores.detach().sum() + wide(query.detach()).sum()
    if isinstance(score, Location):
        attended = local.mix(wide(found.keep.to(query.dtype)), ready.key.detach(), first)
        return found.of(score(query, ready), ready.key.shape[1]), attended.sum() + wide(query.detach()).sum()
    flat, keys = ready.projected.flatten(0, 1), ready.key.shape[1]
    finite_probes = [wide(query.detach()).sum()]

    def some(part: slice) -> Tensor:
        positions = found.keys[:, part] + keys * torch.arange(query.shape[0], device=query.device)[:, None, None]
        held = flat.index_select(0, positions.flatten()).view(-1, window, flat.shape[-1])
        finite_probes.append(held.detach().sum())
        some_queries = query[:, part]
        return score(some_queries.flatten(0, 1).unsqueeze(1), Prepared(held, held)).view(
            *some_queries.shape[:2], window
        )

    numbers = first.numel() * window * flat.shape[-1]
    # The windows of all queries side by side may be much larger than all keys.
    scores = (
        some(slice(None))
        if numbers < query_chunks.MANY
        else query_chunks.in_chunks(some, query.shape[1], numbers, draws=False)
    )
    return scores, scores.detach().sum() + torch.stack(finite_probes).sum()
