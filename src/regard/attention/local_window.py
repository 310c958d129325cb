"""Local attention over the keys of its windows alone: the others are neither scored nor normalised nor read.

The numbers are those of `attend` under the window's mask, and so is the order of what is done: score, bias, normalize,
refocus, read. Only plain calls on a CPU come here, and one in which something visible is not finite is left to
`attend`, which keeps such content where it belongs.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.attended import Attended, Source
from regard.attention.checks import checked_bias, checked_sizes
from regard.attention.functional import check_width, wide
from regard.attention.masks import MaskLike, Sizes, as_mask
from regard.attention.normalize import Normalizer
from regard.attention.score import Additive, Bound, DotProduct, Location, Prepared, Score
from regard.kernels import local, rows
from regard.kernels.calls import is_plain

_FARTHEST = 2**18
"""Up to so many keys a center in float32 is exact to a small part of a position."""


class Places(NamedTuple):
    """Which keys each query looks at.

    Attributes:
        first: where its window begins.
        keep: what of the window it sees.
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


def against(
    query: Tensor, key: Tensor | Prepared, value: Tensor | None, score: Score | Bound, lengths: Tensor
) -> str | None:
    """Why a call is not made over its windows alone, in words; None where it is."""
    plain = key.key if isinstance(key, Prepared) else key
    if query.ndim != 3 or plain.ndim != 3:
        return "the query has heads"
    if query.device.type != "cpu" or not is_plain(query):
        return "windows alone are for plain calls on a CPU"
    if 0 in query.shape or 0 in plain.shape or len({one.dtype for one in (query, plain, value) if one is not None}) > 1:
        return "an axis has size 0, or types differ"
    if not isinstance(score, DotProduct | Location | Additive):
        return "the score may look beyond the window"
    keys = plain.shape[1]
    if isinstance(key, Prepared) and key.projected.shape[:2] != plain.shape[:2]:
        return "the keys were prepared in another way"
    if keys > _FARTHEST:
        return f"centers are not exact enough for {keys} keys"
    if lengths.device.type != "cpu" or tuple(lengths.shape) != query.shape[:1] or not _fit(lengths, keys):
        return "the lengths do not fit"
    return None


def _fit(lengths: Tensor, keys: int) -> bool:
    return int(lengths.min()) >= 0 and int(lengths.max()) <= keys


def _size(radius: float, keys: int) -> int:
    """At most ⌊2D⌋ + 1 keys are within D of a place; and one more on each side, whatever is rounded."""
    return int(min(2 * radius + 3, keys))


def places(center: Tensor, radius: float, lengths: Tensor, keys: int, mask: MaskLike | None = None) -> Places:
    """The windows around centers, as `masks.around(center, radius) & masks.padding(lengths) & mask` has them."""
    center = center.detach().to(torch.float64 if center.dtype == torch.float64 else torch.float32)
    reach = radius + 8 * torch.finfo(center.dtype).eps * center.abs().clamp_min(1.0)
    window = _size(radius, keys)
    first = (center - reach).floor().nan_to_num(0.0).clamp(0, keys - window).long()
    at = first.unsqueeze(-1) + torch.arange(window, device=first.device)
    keep = (at.to(center.dtype) - center.unsqueeze(-1)).abs() <= reach.unsqueeze(-1)
    found = Places(first, keep & (at < lengths[:, None, None]))
    if mask is None:
        return found
    drawn = as_mask(mask).draw(Sizes(center.shape[0], 1, center.shape[1], keys), center.device).squeeze(1)
    return Places(first, found.keep & found.of(drawn, keys))


def attend_in_window(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor | None,
    *,
    places: Places,
    score: Score,
    normalizer: Normalizer,
    bias: Tensor | None,
    refocus: tuple[Callable[[Tensor], Tensor], ...],
    dropout: float,
) -> Attended | None:
    """`attend` under the mask of these places; None where something that is seen is not finite.

    Args:
        query: (batch, queries, query_dim).
        key: (batch, keys, key_dim), or what the score prepared.
        value: (batch, keys, value_dim), or None.
        places: which keys each query looks at.
        score: one that `against` lets pass.
        normalizer: over the window.
        bias: added to the scores, as `attend` takes it.
        refocus: window's weights to other weights, which leaves zeros where they are.
        dropout: on the weights.
    """
    ready = key if isinstance(key, Prepared) else score.prepare(key)
    sizes = checked_sizes(query, ready.key, value)
    bias = checked_bias(bias, sizes, query.ndim)
    scores, finite = _scores(query, ready, score, places)
    if bias is not None:
        scores = scores + wide(places.of(bias, sizes.keys))
    normalized = normalizer(scores, places.keep)
    log_prob = None
    if normalizer.draws:
        chosen = normalized.detach() > 0.5
        log_prob = torch.where(chosen, normalizer.log_weights(scores, places.keep), 0.0).sum(-1).to(query.dtype)
    weights = normalized
    for step in refocus:
        weights = step(weights)
    context = None
    if value is not None:
        read = F.dropout(weights, dropout) if dropout > 0 else weights
        context = local.mix(read, value, places.first)
        # Rows that are keys as well were met among the scores.
        finite = finite + (weights if value is ready.key else context).detach().sum()
        context = context.to(query.dtype)
    else:
        finite = finite + weights.detach().sum()
    if not bool(torch.isfinite(finite)):
        return None
    keys = sizes.keys

    def whole() -> Tensor:
        return places.spread(weights, keys, 0.0).to(query.dtype)

    def logs() -> Tensor:
        return places.spread(normalizer.log_weights(scores, places.keep), keys, -torch.inf).to(query.dtype)

    return Attended(context, log_prob=log_prob, source=Source(whole, logs))


def _scores(query: Tensor, ready: Prepared, score: Score, found: Places) -> tuple[Tensor, Tensor]:
    """Of the windows' keys, and a number that is not finite if a query or one of these keys is not."""
    first, window = found.first, found.keep.shape[-1]
    if isinstance(score, DotProduct):
        left, right, factor = score.dot_form(query, ready)
        check_width("key", right, left.shape[-1])
        scores = local.dots(wide(left) if factor == 1 else wide(left) * factor, right, first, window)
        # Of a key that is not finite `prepare` made NaN; a query may have become 0, where it gives a direction alone.
        return scores, scores.detach().sum() + wide(query.detach()).sum()
    if isinstance(score, Location):
        seen = local.mix(wide(found.keep.to(query.dtype)), ready.key.detach(), first)
        return found.of(score(query, ready), ready.key.shape[1]), seen.sum() + wide(query.detach()).sum()
    flat, keys = ready.projected.flatten(0, 1), ready.key.shape[1]
    strange = [wide(query.detach()).sum()]

    def some(part: slice) -> Tensor:
        places = found.keys[:, part] + keys * torch.arange(query.shape[0], device=query.device)[:, None, None]
        held = flat.index_select(0, places.flatten()).view(-1, window, flat.shape[-1])
        strange.append(held.detach().sum())
        asked = query[:, part]
        return score(asked.flatten(0, 1).unsqueeze(1), Prepared(held, held)).view(*asked.shape[:2], window)

    numbers = first.numel() * window * flat.shape[-1]
    # The windows of all queries side by side may be much larger than all keys.
    scores = some(slice(None)) if numbers < rows.MANY else rows.by_rows(some, query.shape[1], numbers, draws=False)
    return scores, scores.detach().sum() + torch.stack(strange).sum()
