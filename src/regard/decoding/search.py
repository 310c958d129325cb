"""One search over every decoder: greedy, beam and sampling, for words, captions, pointers and language models alike."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.choose import Continuations, Forbidden, draw, expand
from regard.decoding.history import History
from regard.decoding.outputs import Hypothesis, Item
from regard.decoding.rows import check_rows, device_of, follow, select
from regard.decoding.scoring import length_norm
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, RegardError, ShapeError
from regard.layers.decoder import Decoder, Step
from regard.layers.transformer.step import assume_unmodified


@torch.no_grad()
def search(
    decoder: Decoder,
    memory: Any,
    batch: int,
    *,
    begin: int | Int[Tensor, "batch prompt"],
    end: int | None,
    settings: SearchSettings | None = None,
    limits: Sequence[int] | Int[Tensor, " batch"] | None = None,
    source_lengths: Sequence[int] | Int[Tensor, " batch"] | None = None,
    indices: Sequence[int] | None = None,
    forbidden: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The best outputs of each item, best first.

    Each step keeps the `beam` most probable continuations of an item's live hypotheses (ties: lower id, then lower
    parent). Those that are EOS leave the beam and are scored; the others are kept. An item is done when it has
    `n_best` finished hypotheses and no live one can beat the worst of them any more, whatever follows; or when none
    lives; or at its limit. Then its rows leave the batch. Finished hypotheses come before cut-off ones, then the score
    decides, then the lower ids. No item's result depends on the others, so batch size and order change nothing.

    With beam 1 this is greedy search. With `settings.sample` each of the `beam` places is an independent draw; equal
    draws are listed once.

    Args:
        decoder: anything with `start`, `step` and `alignment` (see `layers.decoder`), in eval mode.
        memory: the encoder's output, handed to `decoder.start`; its rows are the batch's items.
        batch: how many items.
        begin: the id that every output starts from, or a prompt for each item. It counts nowhere.
        end: the id that ends an output; None: nothing does, and each continues to its limit.
        settings: beam, lengths, penalties, sampling; greedy by default.
        limits: the most tokens of each item's output, EOS counted; overrides the settings' rule.
        source_lengths: each item's real source positions; needed for the rule and for coverage, and to cut alignments.
        indices: each item's number in the whole input, which fixes its random draws; by default 0, 1, 2, …
        forbidden: ids that are never chosen (padding, begin, unknown). Probabilities are not renormalised for it.

    Returns:
        For each item its at most `n_best` different hypotheses (fewer only where no more exist), never none.

    Raises:
        ConfigError: settings that cannot be met; all of them are named before the first step.
        ShapeError: numbers of items do not agree.
    """
    settings = settings or SearchSettings()
    lengths, caps = _whole(source_lengths), _whole(limits)
    _check(decoder, begin, end, settings, caps, lengths, forbidden)
    if caps is None:
        caps = settings.limits(lengths if lengths is not None else [0] * batch)
    numbers = list(range(batch)) if indices is None else list(indices)
    _check_counts(batch, begin=begin, limits=caps, source_lengths=lengths, indices=numbers)

    history = History(aligned=decoder.alignment is not None)
    results: list[list[Hypothesis]] = [[] for _ in range(batch)]
    live = []
    for row, (number, cap) in enumerate(zip(numbers, caps, strict=True)):
        random = np.random.default_rng([settings.seed, number])
        item = Item(row, cap, None if lengths is None else lengths[row], settings, random)
        if cap > 0:
            live.append(item)
        else:
            item.keep(history, 0, 0, 0.0, finished=False)
            results[row] = item.hypotheses(history)
    if not live:
        return results

    state = decoder.start(memory, batch)
    check_rows(state, batch)
    rows = np.array([item.number for item in live])
    state = state if len(live) == batch else select(state, rows)
    device = device_of(decoder, state)
    inputs = (torch.full((batch, 1), begin) if isinstance(begin, int) else begin.long()).to(device)[rows]
    totals = np.zeros((len(live), 1))  # log-probabilities: (items, places); −inf where no hypothesis lives
    cuts = np.full(len(live), -np.inf)
    furthest = np.array([float(length_norm(item.limit, settings)) for item in live])
    ends = np.array([item.limit for item in live])
    slots = {item.number: slot for slot, item in enumerate(live)}
    banned, everyone, soonest = Forbidden(forbidden, end, settings.min_length), np.arange(len(live)), min(ends)
    steps, finished = 0, False
    with assume_unmodified(decoder):
        while live:
            step = decoder.step(state, inputs)
            chosen = _choose(step, live, totals, banned, settings, steps)
            history.add(slots, chosen, _weights(step, decoder.alignment, totals.shape))
            steps += 1

            before, totals = totals, chosen.totals
            if steps < soonest and not finished and _all_continue(chosen, end):
                # As after most steps: no item is done, and no hypothesis has ended that others could be beaten by.
                state = follow(step.state, everyone, chosen.parents, len(live), before.shape[1])
                inputs = torch.from_numpy(chosen.ids.reshape(-1, 1)).to(device)
                continue
            ended = (chosen.ids == (-1 if end is None else end)) & (totals > -np.inf)
            if ended.any():
                # The coverage term only lowers a score, so a hypothesis that loses without it need not be scored.
                worthy = ended & (totals / length_norm(steps, settings) >= cuts[:, None])
                for slot, place in np.argwhere(worthy).tolist():
                    live[slot].keep(history, steps, place, float(totals[slot, place]), finished=True)
                    cuts[slot] = live[slot].cut
                finished = True
                totals[ended] = -np.inf

            best = totals.max(axis=1)
            # The most that a live hypothesis can reach: it loses nothing more, and spreads its loss over all it may
            # have.
            beaten = best / furthest < cuts
            done = beaten | (best == -np.inf) | (ends == steps)
            if done.any():
                for slot in np.flatnonzero(done & ~beaten).tolist():
                    # Where the model allows no continuation, the hypotheses of the step before are what there is.
                    stuck = best[slot] == -np.inf and not ended[slot].any()
                    alive = before[slot] if stuck else totals[slot]
                    for place in np.flatnonzero(alive > -np.inf).tolist():
                        live[slot].keep(history, steps - int(stuck), place, float(alive[place]), finished=False)
                for slot in np.flatnonzero(done).tolist():
                    results[live[slot].number] = live[slot].hypotheses(history)

            stay = np.flatnonzero(~done)
            state = follow(step.state, stay, chosen.parents, len(live), before.shape[1])
            inputs = torch.from_numpy(chosen.ids[stay].reshape(-1, 1)).to(device)
            if len(stay) < len(live):
                totals, cuts, furthest, ends = totals[stay], cuts[stay], furthest[stay], ends[stay]
                live = [live[slot] for slot in stay.tolist()]
                everyone, soonest = np.arange(len(live)), min(ends, default=0)
                slots = {item.number: slot for slot, item in enumerate(live)}
    return results


def _all_continue(chosen: Continuations, end: int | None) -> bool:
    """Whether every place has a hypothesis, and none has ended. In Python's numbers, as there are few."""
    return end not in chosen.ids.ravel().tolist() and -np.inf not in chosen.totals.ravel().tolist()


def _choose(
    step: Step,
    live: list[Item],
    totals: np.ndarray,
    banned: Forbidden,
    settings: SearchSettings,
    steps: int,
) -> Continuations:
    logits = step.logits.select(1, -1)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    mask = banned.mask(logits, steps)
    if settings.sample:
        uniforms = np.stack([item.random.random(settings.beam) for item in live])
        return draw(logits, mask, totals, uniforms, settings)
    return expand(logits, mask, totals, settings.beam)


def _weights(step: Step, alignment: str | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """Each hypothesis's attention at the last step: `(items, places, source)`, heads averaged, a copy on the CPU."""
    if alignment is None:
        return None
    weights = step.weights(alignment)[:, -1]
    return np.array(weights.float().cpu().numpy()).reshape(*shape, -1)


def _whole(numbers: Iterable[int] | Tensor | None) -> list[int] | None:
    return None if numbers is None else [int(number) for number in numbers]


def _check(
    decoder: Decoder,
    begin: int | Tensor,
    end: int | None,
    settings: SearchSettings,
    caps: list[int] | None,
    lengths: list[int] | None,
    forbidden: Sequence[int],
) -> None:
    wrong = []
    if getattr(decoder, "training", False):
        raise RegardError("the decoder is in training mode, so dropout would change what it finds: call eval() first")
    if caps is None and lengths is None and settings.max_length is None:
        wrong.append("nothing limits the length: give limits, source_lengths or settings.max_length")
    if settings.coverage_penalty and decoder.alignment is None:
        wrong.append("coverage_penalty needs attention to a source, and this decoder has none: set it to 0")
    if settings.coverage_penalty and lengths is None:
        wrong.append("coverage_penalty needs source_lengths, so that padding does not count")
    if end in forbidden:
        wrong.append(f"EOS (id {end}) is among the forbidden ids: nothing could ever end")
    if isinstance(begin, Tensor) and (begin.dim() != 2 or begin.shape[1] == 0):
        wrong.append(f"begin has shape {tuple(begin.shape)}: expected (batch, n) with n ≥ 1 tokens of prompt")
    if any(cap < 0 for cap in caps or ()):
        wrong.append(f"limits must not be negative; given {min(caps or [0])}")
    if wrong:
        raise ConfigError("; ".join(wrong))


def _check_counts(batch: int, **given: Any) -> None:
    for name, values in given.items():
        if values is not None and not isinstance(values, int) and len(values) != batch:
            raise ShapeError(f"{name} has {len(values)} entries for a batch of {batch} items: expected one per item")
