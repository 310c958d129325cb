"""The chunked path: weights of some queries at a time, made again in the backward pass; for additive scores."""

import math
from collections.abc import Iterator

from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call, name_of
from regard.attention.call.formula import read, ready, scores_of
from regard.attention.call.recompute import recompute
from regard.attention.cost.cost import SQUARE, Cost, formed
from regard.attention.cost.workload import Workload, workload_of
from regard.attention.parts.score_base import Score
from regard.attention.paths.base import Path
from regard.kernels.fallback import query_chunks


class Chunked(Path):
    """Any normalizer over a score whose pairs are gone through block by block, where there are many weights."""

    name = "chunked"
    does = "there are many weights: they are made for some queries at a time"

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        if call.score.in_blocks(call.query, call.sizes.keys) is None:
            yield f"the score {name_of(call.score)!r} does not go through its pairs block by block"
        yield from has_no_chunks(call)

    def run(self, call: Call, top: int | None) -> Attended:
        """See `Path.run`."""
        assert isinstance(call.score, Score)
        keep, prepared = call.draw(), ready(call)

        def context(part: slice) -> Tensor:
            return read(call, call.normalizer(scores_of(call, prepared, part), query_chunks.chunk_of(keep, part)))

        draws = call.dropout > 0
        whole = query_chunks.in_chunks(context, call.sizes.queries, math.prod(call.sizes), draws=draws)
        # The weights are made from the score's parameters: once these have changed they are others.
        made_from = call.query, prepared.projected, *call.score.parameters()
        source = recompute(call, lambda part: scores_of(call, prepared, part), lambda: keep, *made_from)
        return Attended(whole, source=source)

    def cost(self, call: Call) -> Cost:
        """See `Path.cost`."""
        work = workload_of(call)
        return of_chunks(self.name, work, min(work.weights, query_chunks.PART))


def has_no_chunks(call: Call) -> Iterator[str]:
    """Why weights are not formed for some queries at a time: none may depend on another query's."""
    if call.sizes.queries == 1 or math.prod(call.sizes) < query_chunks.MANY:
        yield "there are too few weights to make them for some queries at a time"
    if call.value is None:
        yield "there is no value: the weights are the answer"
    if call.refocus:
        yield "refocus= changes the weights after they are normalised"
    if call.normalizer.draws or isinstance(call.normalizer.temperature, Tensor):
        yield "the normalizer draws, or has a tensor as its temperature"
    if not isinstance(call.score, Score):
        yield "the score is bound to arguments of this call"


def of_chunks(name: str, work: Workload, at_once: int) -> Cost:
    """The cost where so many weights of an additive score are formed at once."""
    beside = work.weights * work.value_width + work.prepared
    forward_operations = 2 * work.weights * work.compared
    forward, backward = formed(work, at_once)
    sides = 2 * work.made * work.wide  # projected, and their exponentials
    several = work.context * work.given  # the parts, then the whole
    return Cost(
        name,
        2 * beside + forward_operations,
        6 * beside + 4 * forward_operations,  # the scores are made again
        forward + sides + several,
        backward + 2 * sides + 2 * at_once * work.wide + several,  # the scores' gradient beside those of the weights
        f"{SQUARE} × hidden units",
        "positions × hidden units",
    )
