"""The paths of a call: each gives the context, and how to make the weights that it did not form."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attended import Attended, Source
from regard.attention.call import guard as guarding
from regard.attention.call.call import Call, Plan, visible
from regard.attention.call.checks import are_plain_tensors, check_sides
from regard.attention.call.mask_summary import conjuncts, decompose, joined
from regard.attention.modules.linear import Linear, linear_attention
from regard.attention.parts.functional import dot as formula, unit, wide
from regard.attention.parts.mask_kinds import Causal, Padding
from regard.attention.parts.masks import causal, padding
from regard.attention.parts.score import Additive
from regard.attention.parts.score_base import DotProduct, Prepared, Score
from regard.attention.paths import choose
from regard.attention.paths.cost import warn_of_memory
from regard.attention.paths.recompute import ALL, cast, recompute
from regard.attention.statistics import Statistics, checked_top
from regard.kernels.additive import attend as additive_attend
from regard.kernels.autograd.plain import is_readable
from regard.kernels.dot import dot, dropout_mask
from regard.kernels.fallback import query_chunks
from regard.kernels.fallback.blocked import blocked
from regard.kernels.fallback.ragged import ragged
from regard.kernels.fallback.sdpa import fused
from regard.kernels.fallback.windowed import windowed


def run(call: Call, at_once: bool, top: int | None = None) -> Attended:
    """Take the path of a call.

    Args:
        call: the checked call.
        at_once: make the weights now; the context is the same either way.
        top: make the statistics of the weights now, with this many of each query's largest.
    """
    plan = call.choose(ahead=top is not None)
    call = call._replace(seed=dropout_mask.new_seed()) if plan.draws else call
    attended = _run(call, plan, at_once, top)
    if attended is None:
        # A loop checks what it reads while it reads it. Where something is not finite, all is checked first.
        attended = _run(call, call.choose(), at_once, top)
    assert attended is not None
    return attended


def _run(call: Call, plan: Plan, at_once: bool, top: int | None) -> Attended | None:
    """None if the call's numbers have to be checked first."""
    choice, guarded, checks_in_loop, masked_unread, _ = plan
    keep = _mask_for(choice, call, guarded)
    if not at_once:
        warn_of_memory(choice, call, keep, stacklevel=5)
    clean, nonfinite = _guarded(call, keep) if guarded and keep is not None else (call, None)
    attended: Attended | None
    if choice.path == "linear":
        attended = _linear(call)
    elif choice.path == "additive" and choice.facts.in_native_loop:
        attended = _additive_native(clean, keep, nonfinite)
    elif choice.path == "additive" and choice.facts.in_chunks:
        attended = _additive_in_chunks(clean, keep, nonfinite)
    elif choice.path in ("explicit", "additive"):
        attended = _explicit(clean, keep, nonfinite)
    else:
        attended = _dot_product(
            clean, choice.path, keep, nonfinite, top, masked_unread, dot.SafetyCheck() if checks_in_loop else None
        )
    if attended is None:
        return None
    if top is not None:
        attended.statistics(top)  # it keeps them
    if call.traced and not at_once:
        # A graph cannot carry the recipe of its weights out; what is held already may leave.
        return Attended(attended.context, weights=attended._weights, log_prob=attended.log_prob)
    if at_once:
        return Attended(
            attended.context,
            weights=attended.weights,
            log_weights=attended.log_weights,
            log_prob=attended.log_prob,
            statistics=attended._statistics,
        )
    return attended


# --- what comes before a path ---------------------------------------------------------------------------------------


def _mask_for(choice: choose.Choice, call: Call, guarded: bool) -> Tensor | None:
    """What of the mask this path must be given as a tensor."""
    summary, path = call.summary, choice.path
    if call.mask is None or path in ("linear", "ragged", "windowed"):
        return None
    if path == "native" and not guarded:
        return None  # what the loop does not know is drawn with the rest of its mask
    if path == "blocked" or (path == "additive" and not guarded and choice.facts.in_native_loop):
        return call.drawn(summary.beside_causal)
    if path == "fused" and not guarded and summary.causal and summary.beside_causal is None:
        return None
    return call.draw()


def _guarded(call: Call, keep: Tensor) -> tuple[Call, Tensor]:
    clean = guarding.guard(call.query, call.compared(), call.value, keep)
    if call.prepared is None:
        return call._replace(query=clean.query, key=clean.key, value=clean.value), clean.nonfinite
    prepared = Prepared(call.prepared.key, clean.key)
    return call._replace(query=clean.query, prepared=prepared, value=clean.value), clean.nonfinite


# --- parts that the paths share -------------------------------------------------------------------------------------


def _ready(call: Call) -> Prepared:
    return call.score.prepare(call.key) if call.prepared is None else call.prepared


def _for_all_heads(call: Call, tensor: Tensor) -> Tensor:
    """(batch, key_heads, …) -> (batch, heads, …)."""
    share = 1 if call.query.ndim == 3 else call.query.shape[1] // call.key.shape[1]
    return tensor if share == 1 else tensor.repeat_interleave(share, dim=1)


def _scores(call: Call, ready: Prepared, part: slice = ALL) -> Tensor:
    """Of some queries against all keys."""
    query = call.query if part == ALL else call.query[..., part, :]
    keys = Prepared(_for_all_heads(call, ready.key), _for_all_heads(call, ready.projected))
    return _biased(call, call.score(query, keys), part)


def _biased(call: Call, scores: Tensor, part: slice) -> Tensor:
    bias = query_chunks.chunk_of(call.bias, part)
    return scores if bias is None else scores + wide(bias)


def _read(call: Call, weights: Tensor) -> Tensor:
    assert call.value is not None
    value = _for_all_heads(call, call.value)
    if call.dropout > 0:
        if call.seed is None:
            weights = F.dropout(weights, call.dropout)
        else:
            weights = weights * dropout_mask.multipliers(call.seed, call.dropout, weights.detach())
    weights = cast(value.dtype, weights)
    # torch takes longer to dispatch a product of any shapes than to compute a small one.
    alike = weights.ndim == 3 and weights.shape[0] == value.shape[0]
    return cast(call.query.dtype, torch.bmm(weights, value) if alike else torch.matmul(weights, value))


def _refocused(call: Call, weights: Tensor, keep: Tensor | None) -> Tensor:
    if not call.refocus:
        return weights
    for step in call.refocus:
        weights = step(weights)
    # A shift or an interpolation may move weight onto masked-out keys; it is dropped, not handed to others.
    return weights if keep is None else torch.where(keep, weights, 0.0)


# --- the paths ------------------------------------------------------------------------------------------------------


def _explicit(call: Call, keep: Tensor | None, nonfinite: Tensor | None) -> Attended:
    scores = _scores(call, _ready(call))
    normalized = call.normalizer(scores, keep)
    log_prob = None
    if call.normalizer.draws:
        chosen = normalized.detach() > 0.5
        log_prob = torch.where(chosen, call.normalizer.log_weights(scores, keep), 0.0).sum(-1, keepdim=True)
        log_prob = cast(call.query.dtype, guarding.propagate_nan(log_prob, nonfinite).squeeze(-1))
    weights = _refocused(call, normalized, keep)
    context = None if call.value is None else guarding.propagate_nan(_read(call, weights), nonfinite)

    def log_weights() -> Tensor:
        return cast(
            call.query.dtype, guarding.propagate_nan(call.normalizer.log_weights(scores, keep), nonfinite, keep)
        )

    reported = cast(call.query.dtype, guarding.propagate_nan(weights, nonfinite, keep))
    return Attended(context, weights=reported, log_prob=log_prob, source=Source(lambda: reported, log_weights))


def _additive_native(call: Call, keep: Tensor | None, nonfinite: Tensor | None) -> Attended:
    """Additive scores, weighed and read as they are made."""
    assert isinstance(call.score, Additive) and call.value is not None
    ready = _ready(call)
    *sides, vector = call.score.pair_form(call.query, ready)
    if not are_plain_tensors(*sides, vector, keep):  # a score's parameters or a mask may be of any class
        return _additive_in_chunks(call, call.draw(), nonfinite)
    scale = 1 / float(call.normalizer.temperature)
    lower = call.summary.causal and nonfinite is None  # else it is drawn with the rest
    context = additive_attend.attention(
        *map(wide, (*sides, vector, call.value)),
        keep=keep,
        bias=None if call.bias is None else wide(call.bias),
        causal=lower,
        dropout=call.dropout,
        scale=scale,
        prepared=call.prepared is not None,
    )

    def drawn_mask() -> "Tensor | None":  # in quotes: torch 2.9 takes no union of types into a graph
        drawn = call.drawn(causal()) if lower else None
        return keep if drawn is None else drawn if keep is None else keep & drawn

    made_from = call.query, ready.projected, *call.score.parameters()
    source = recompute(call, lambda part: _scores(call, ready, part), drawn_mask, nonfinite, *made_from)
    return Attended(guarding.propagate_nan(cast(call.query.dtype, context), nonfinite), source=source)


def _additive_in_chunks(call: Call, keep: Tensor | None, nonfinite: Tensor | None) -> Attended:
    assert isinstance(call.score, Score)
    ready = _ready(call)

    def context(part: slice) -> Tensor:
        return _read(call, call.normalizer(_scores(call, ready, part), query_chunks.chunk_of(keep, part)))

    whole = query_chunks.in_chunks(context, call.sizes.queries, math.prod(call.sizes), draws=call.dropout > 0)
    # The weights are made from the score's parameters: once these have changed they are others.
    made_from = call.query, ready.projected, *call.score.parameters()
    source = recompute(call, lambda part: _scores(call, ready, part), lambda: keep, nonfinite, *made_from)
    return Attended(guarding.propagate_nan(whole, nonfinite), source=source)


def _linear(call: Call) -> Attended:
    assert isinstance(call.score, Linear) and call.value is not None
    masks = conjuncts(call.mask)
    keep = None
    for mask in masks:
        if isinstance(mask, Padding):
            drawn = mask.draw(call.sizes, call.query.device)[:, 0, 0].expand(call.sizes.batch, -1)
            keep = drawn if keep is None else keep & drawn
    lower = [mask for mask in masks if isinstance(mask, Causal)]
    three, phi = (call.query, call.key, call.value), call.score.feature_map
    context = linear_attention(*three, feature_map=phi, causal=len(lower) > 0, keep=keep)
    # The weights are made under the padding of now, whatever becomes of the caller's lengths.
    padded = [] if keep is None else [padding(keep=keep.clone())]
    redrawn = joined([*lower, *padded])

    def scores(part: slice) -> Tensor:
        drawn = call.drawn(redrawn)
        if drawn is None or (is_readable(call.query) and guarding.is_safe(call.query, call.key)):
            return _scores(call, _ready(call), part)
        query, key, _, nonfinite = guarding.guard(call.query, call.key, None, drawn)
        clean = call._replace(query=query, key=key)
        return guarding.propagate_nan(_scores(clean, _ready(clean), part), nonfinite[..., part])

    source = recompute(call, scores, lambda: call.drawn(redrawn), None, call.query, call.key)
    return Attended(cast(call.query.dtype, context), source=source)


def _dot_product(
    call: Call,
    path: choose.Path,
    keep: Tensor | None,
    nonfinite: Tensor | None,
    top: int | None,
    masked_unread: bool = False,
    check: dot.SafetyCheck | None = None,
) -> Attended | None:
    """A softmax of dot products, by a path that does not keep the weights; None if its loop found it unsafe.

    What is masked out and `masked_unread` may hold anything, but in the loop it is of no account.
    """
    assert isinstance(call.score, DotProduct) and call.value is not None
    if path == "native":
        left, right, factor, directions = call.score.loop_form(call.query, call.key, call.prepared)
    else:
        left, right, factor = call.score.dot_form(call.query, _ready(call))
        directions = dot.NO_DIRECTIONS
    check_sides(call.query, left, call.key, right)
    temperature = float(call.normalizer.temperature)
    scale, bias = factor / temperature, None if call.bias is None else wide(call.bias)
    if bias is not None and temperature != 1.0:  # it may be as large as the scores
        bias = bias / temperature
    sides = _of_one_dtype(left, right, call.value)
    known, loop = call.summary, None
    observed = made = None
    if path == "native":
        loop = decompose(call.mask, call.sizes)
        keep = None if loop.rest is None else call.drawn(loop.rest)
    if path != "fused" and not are_plain_tensors(*sides, bias, keep):  # parameters and masks may be of any class
        if check is not None:
            return None
        call, whole = call._replace(seed=None), call.draw()  # its class may have a dropout of its own
        if masked_unread and whole is not None:
            clean, nonfinite = _guarded(call, whole)
            return _explicit(clean, whole, nonfinite)
        return (
            _explicit(call, whole, nonfinite)
            if call.dropout > 0
            else _dot_product(call, "fused", whole, nonfinite, top)
        )
    if loop is not None:
        dot_visible = visible(loop, keep)
        options: dict[str, Any] = {"visible": dot_visible, "bias": bias, "scale": scale, "directions": directions}

        def observed(top: int) -> Statistics:
            top = checked_top(top, call.sizes.keys)
            return Statistics(*dot.statistics(*sides[:2], top=top, **options))

        if top is None or call.dropout > 0 or dot.needs_gradient(*sides, bias):
            context = dot.attention(*sides, dropout=call.dropout, seed=call.seed, check=check, **options)
            if check is not None and not check.safe:
                return None
        else:
            top = checked_top(top, call.sizes.keys)
            context, *numbers = dot.attention_and_statistics(*sides, top=top, **options)
            made = Statistics(*numbers)
    elif path == "blocked":
        context = blocked(*sides, keep=keep, bias=bias, causal=known.causal, scale=scale, dropout=call.dropout)
    elif path == "ragged":
        assert known.lengths is not None
        context = ragged(
            *sides,
            lengths=known.lengths,
            bias=bias,
            causal=known.causal,
            scale=scale,
            ragged_queries=known.ragged_queries,
        )
    elif path == "windowed":
        assert known.window is not None
        context = windowed(*sides, left=known.window[0], right=known.window[1], scale=scale)
    else:
        lower = keep is None and known.causal
        context = fused(
            *sides, keep=keep, bias=bias, causal=lower, scale=scale, none_fully_masked=known.none_fully_masked()
        )
    context = guarding.propagate_nan(cast(call.query.dtype, context), nonfinite)

    def drawn_mask() -> "Tensor | None":  # in quotes: torch 2.9 takes no union of types into a graph
        # A part that was drawn may be of the caller's tensors, which may have changed; the others are our own.
        if loop is None and known.rest is None and nonfinite is None:
            return call.draw()
        own = loop.known if loop else causal() if path == "blocked" and known.causal else None
        lower = call.drawn(own)
        return keep if lower is None else lower if keep is None else keep & lower

    def scores(part: slice) -> Tensor:
        # From the two sides: an optimizer may have changed the score's parameters meanwhile.
        query_side, key_side, unprepared = left, right, call
        if masked_unread and not (is_readable(left) and guarding.is_safe(left, right)):
            drawn = drawn_mask()  # and not what the caller's mask has become
            assert drawn is not None
            query_side, key_side, *_ = guarding.guard(left, right, None, drawn)
            unprepared = call._replace(key=key_side)
        query_side = query_side[..., part, :]
        query_side, key_side = (
            unit(query_side) if directions[0] else query_side,
            _ready(unprepared).projected if directions[1] else key_side,
        )
        return _biased(call, formula(query_side, _for_all_heads(call, key_side), factor), part)

    source = recompute(call, scores, drawn_mask, nonfinite, left, right, observed=observed)
    return Attended(context, statistics=made, source=source)


def _of_one_dtype(left: Tensor, right: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In one type, where it is not autocast that chooses one."""
    alike = left.dtype is right.dtype and left.dtype is value.dtype
    if alike or not (left.is_meta or not torch.is_autocast_enabled(left.device.type)):
        return left, right, value
    kind = torch.promote_types(left.dtype, value.dtype)
    return left.to(kind), right.to(kind), value.to(kind)
