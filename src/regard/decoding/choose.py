"""How a step chooses its tokens: the best of the beam, or one draw per hypothesis."""

import functools
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, RegardError
from regard.kernels.transformer import argmax


class Forbidden:
    """The ids that may not be chosen: one mask for all steps of a search, and one for those in which EOS may not come.

    Args:
        ids: never chosen.
        end: the id that ends an output, if one does.
        min_length: in how many first steps it may not be chosen.
    """

    def __init__(self, ids: Sequence[int], end: int | None, min_length: int) -> None:
        self._ids, self._end, self._min_length = list(ids), [] if end is None else [end], min_length
        self._choices = -1
        self._masks: list[Tensor | None] = []

    def mask(self, logits: Float[Tensor, "rows choices"], steps: int) -> Bool[Tensor, " choices"] | None:
        """True where an id may not be chosen after that many steps; None where all may.

        Raises:
            ConfigError: some id is none of the choices.
        """
        if logits.shape[1] != self._choices:
            self._choices = logits.shape[1]
            self._masks = [self._mask(logits, self._ids), self._mask(logits, self._ids + self._end)]
        return self._masks[steps < self._min_length]

    def _mask(self, logits: Tensor, banned: list[int]) -> Tensor | None:
        choices = logits.shape[1]
        if outside := [one for one in (*self._ids, *self._end) if not 0 <= one < choices]:
            raise ConfigError(f"the decoder has {choices} choices, ids 0 to {choices - 1}; there is no {min(outside)}")
        if not banned:
            return None
        mask = torch.zeros(choices, dtype=torch.bool)
        mask[banned] = True
        return mask.to(logits.device)


class Continuations(NamedTuple):
    """How each item's beam is continued: `(items, places)` arrays; a place without a hypothesis has total −inf.

    Attributes:
        parents: the place in the old beam that is continued.
        ids: the token that continues it.
        totals: the log-probability (nats) of the whole hypothesis so far.
    """

    parents: np.ndarray
    ids: np.ndarray
    totals: np.ndarray


def highest(
    scores: Float[Tensor, "rows choices"], count: int, banned: Bool[Tensor, " choices"] | None = None
) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Each row's `count` highest scores, highest first, and their ids; of equal ones the lower ids (unlike `topk`).

    `banned` ids come last, with −inf. Rows are sorted in full only where that, or a tie, requires it.
    """
    choices = scores.shape[1]
    count = min(count, choices)
    values, ids = scores.topk(min(count + 1, choices), dim=1)
    again = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    if banned is not None:
        again |= banned[ids].any(dim=1)
    if choices > count:
        # Some id beyond the cut is as good as one within it; among impossible ones (−inf) any will do.
        again |= (values[:, count - 1] == values[:, count]) & (values[:, count] > -torch.inf)
        values, ids = values[:, :count], ids[:, :count]
    if bool(again.any()):
        allowed = scores[again] if banned is None else scores[again].masked_fill(banned, -torch.inf)
        exact, order = allowed.sort(dim=1, descending=True, stable=True)
        values[again], ids[again] = exact[:, :count], order[:, :count]
    ids, order = ids.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, ids.gather(1, order)


def expand(
    logits: Float[Tensor, "rows choices"], banned: Bool[Tensor, " choices"] | None, totals: np.ndarray, beam: int
) -> Continuations:
    """The `beam` most probable continuations of each item; ties go to the lower id, then to the lower parent.

    Args:
        logits: one row per hypothesis, those of an item side by side: rows = items × places.
        banned: bool `(choices,)`, the ids that may not be chosen. Probabilities are the model's own, not renormalised.
        totals: `(items, places)` log-probabilities of the hypotheses so far.
        beam: the most places of the new beam.
    """
    items, places = totals.shape
    if beam == places == 1:
        best, steps = _greedy(logits, banned)
        return Continuations(_only(items), best, totals + steps)
    values, ids = highest(logits, beam, banned)
    each = values.shape[1]
    # float64 sums of float32 values are exact here, so hypotheses that tie on paper tie in the machine.
    steps = _numpy(values) - _log_normalizers(logits)
    candidates = (totals.reshape(-1, 1) + steps).reshape(items, places * each)
    tokens = ids.cpu().numpy().reshape(items, places * each)
    parents = np.broadcast_to(np.repeat(np.arange(places), each), tokens.shape)
    order = np.lexsort((parents, tokens, -candidates), axis=-1)[:, :beam]
    take = np.take_along_axis
    return Continuations(take(parents, order, 1), take(tokens, order, 1), take(candidates, order, 1))


def draw(
    logits: Float[Tensor, "rows choices"],
    banned: Bool[Tensor, " choices"] | None,
    totals: np.ndarray,
    uniforms: np.ndarray,
    settings: SearchSettings,
) -> Continuations:
    """One random continuation for each draw; `totals` stay the model's own log-probabilities.

    Temperature comes first, then top-k, then top-p over what top-k left. The draw is the inverse of the distribution
    function at a given uniform number, so an item's draws depend on its own numbers and logits only.

    Args:
        logits: one row per draw so far; in the first step one row per item, which all of its draws share.
        banned: bool `(choices,)`, the ids that may not be chosen.
        totals: `(items, 1)` in the first step, then `(items, draws)`.
        uniforms: `(items, draws)` in [0, 1).
        settings: temperature, top_k, top_p.
    """
    items, places = totals.shape
    draws = uniforms.shape[1]
    choices = logits.shape[1]
    if settings.top_k is None and settings.top_p is None:
        values = (logits if banned is None else logits.masked_fill(banned, -torch.inf)).cpu()
        ids = torch.arange(choices).expand_as(values)
    else:
        values, ids = (found.cpu() for found in highest(logits, settings.top_k or choices, banned))
    probabilities = torch.softmax(values.double() / (settings.temperature or 1.0), dim=1).nan_to_num()
    if settings.top_p is not None:
        before = probabilities.cumsum(1) - probabilities
        probabilities = probabilities.masked_fill(before >= settings.top_p, 0.0)
    cumulated = probabilities.cumsum(1)
    points = torch.from_numpy(uniforms).reshape(len(values), -1) * cumulated[:, -1:]
    picked = torch.searchsorted(cumulated, points, right=True)
    last = (probabilities > 0).long().mul(torch.arange(values.shape[1])).amax(1, keepdim=True)
    picked = torch.minimum(picked, last)  # a uniform number that rounding lifted to the very top
    parents = np.broadcast_to(np.arange(draws) if places == draws else np.zeros(draws, dtype=np.int64), (items, draws))
    steps = _numpy(values.gather(1, picked)) - _log_normalizers(logits)
    grown = np.take_along_axis(totals, parents, 1) + steps.reshape(items, draws)
    return Continuations(parents, ids.gather(1, picked).numpy().reshape(items, draws), grown)


@functools.cache
def _only(items: int) -> np.ndarray:
    """Each item's only place."""
    places = np.zeros((items, 1), dtype=np.int64)
    places.flags.writeable = False
    return places


def _greedy(logits: Tensor, banned: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """Each row's most probable choice, of equal ones the lowest id, and its log-probability: `(rows, 1)` each.

    In one compiled call, or in numpy's, which cost half of torch's on a processor: a step of one short text is mostly
    such calls.
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    if argmax.serves(logits, banned):
        return argmax.first(logits, banned) or _refuse()
    if logits.device.type != "cpu":
        allowed = logits if banned is None else logits.masked_fill(banned, -torch.inf)
        value, place = allowed.max(dim=1, keepdim=True)
        return place.cpu().numpy(), _numpy(value) - _log_normalizers(logits)
    scores = logits.numpy(force=True)
    top = scores.max(axis=1, keepdims=True)
    _refuse_infinite(top)
    top = np.maximum(top, np.finfo(scores.dtype).min)
    with np.errstate(over="ignore"):  # numbers may lie farther apart than the largest one
        sums = np.exp(scores - top).sum(axis=1, keepdims=True, dtype=np.float64)
    if banned is not None:
        scores = np.where(banned.numpy(force=True), -np.inf, scores)
    best = scores.argmax(axis=1, keepdims=True)
    # A row of −inf alone has no sum, and its one step is −inf.
    found = np.take_along_axis(scores, best, 1).astype(np.float64)
    return best, found - top - np.log(np.maximum(sums, np.finfo(np.float32).tiny))


def _log_normalizers(logits: Tensor) -> np.ndarray:
    """Logsumexp of each row; a row of −inf alone (nothing may follow) gets a finite one, so that its steps are −inf."""
    normalizers = _numpy(torch.logsumexp(logits, dim=1, keepdim=True))
    _refuse_infinite(normalizers)
    return np.maximum(normalizers, np.finfo(np.float32).min)


def _refuse_infinite(numbers: np.ndarray) -> None:
    if not (numbers < np.inf).all():
        _refuse()


def _refuse() -> NoReturn:
    raise RegardError(
        "the decoder gave NaN or +inf as a score, so nothing can be compared: was the model damaged in training "
        "(a loss of NaN), or is it run in a precision too small for it?"
    )


def _numpy(values: Tensor) -> np.ndarray:
    return values.cpu().double().numpy()
