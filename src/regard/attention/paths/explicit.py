"""The explicit path: every score and every weight is formed. It can do everything, and knows nothing of masks."""

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.attention.attended import Attended, Source
from regard.attention.call.call import Call, name_of
from regard.attention.call.formula import read, ready, scores_of
from regard.attention.call.recompute import cast
from regard.attention.cost.cost import SQUARE, Cost, formed
from regard.attention.cost.workload import Workload, workload_of
from regard.attention.paths.base import Path
from regard.attention.paths.chunked import has_no_chunks
from regard.attention.paths.fused import Fused


class Explicit(Path):
    """Scores, weights and context as three tensors."""

    name = "explicit"
    does = "all scores and weights are formed"

    def against(self, call: Call) -> Iterator[str]:
        """It takes every call."""
        return iter(())

    def does_with(self, call: Call) -> str:
        """With how an additive score goes through its pairs."""
        how = call.score.in_blocks(call.query, call.sizes.keys)
        return self.does if how is None else f"{self.does}; the score {name_of(call.score)!r} is made {how}"

    def holds(self, call: Call) -> Iterator[str]:
        """What speaks against the path that would not hold them."""
        if call.score.in_blocks(call.query, call.sizes.keys) is None:
            return Fused().reasons(call)
        return has_no_chunks(call) if call.sizes.queries > 1 else iter(())

    def run(self, call: Call, top: int | None) -> Attended:
        """See `Path.run`."""
        keep, normalizer = call.draw(), call.normalizer
        scores = scores_of(call, ready(call))
        normalized = normalizer(scores, keep)
        log_prob = None
        if normalizer.draws:
            chosen = normalized.detach() > 0.5
            log_prob = torch.where(chosen, normalizer.log_weights(scores, keep), 0.0).sum(-1)
            log_prob = cast(call.query.dtype, log_prob)
        weights = _refocused(call, normalized, keep)
        context = None if call.value is None else read(call, weights)
        reported = cast(call.query.dtype, weights)

        def log_weights() -> Tensor:
            return cast(call.query.dtype, normalizer.log_weights(scores, keep))

        return Attended(context, weights=reported, log_prob=log_prob, source=Source(lambda: reported, log_weights))

    def cost(self, call: Call) -> Cost:
        """An additive score goes through its pairs block by block, where it can."""
        work = workload_of(call)
        return _in_blocks(work) if work.in_blocks else of_tables(work)


def of_tables(work: Workload) -> Cost:
    """What it costs to form all weights, and an additive score's table of pairs × hidden units."""
    made = work.weights * (work.compared + work.value_width) + work.prepared
    forward, backward = formed(work, work.weights)
    table = work.table * work.wide
    growing = f"{SQUARE} × {'hidden units' if table else 'width'}"
    return Cost(
        "explicit",
        2 * made,
        6 * made,
        max(table, forward),
        # The table's sigmoids are kept; the backward pass holds the gradients of two steps beside them.
        max(3 * table, backward),
        growing,
        growing if table else SQUARE,
    )


def _in_blocks(work: Workload) -> Cost:
    made = work.weights * (work.compared + work.value_width) + work.prepared
    forward, backward = formed(work, work.weights)
    sides = 2 * work.made * work.wide  # projected, and their exponentials
    gradients = 2 * sides + 2 * work.weights * work.wide  # the scores' beside those of the weights
    return Cost(
        "explicit", 2 * made, 6 * made, forward + sides, backward + gradients, f"{SQUARE} × hidden units", SQUARE
    )


def _refocused(call: Call, weights: Tensor, keep: Tensor | None) -> Tensor:
    if not call.refocus:
        return weights
    for step in call.refocus:
        weights = step(weights)
    # A shift or an interpolation may move weight onto masked-out keys; it is dropped, not handed to others.
    return weights if keep is None else torch.where(keep, weights, 0.0)
