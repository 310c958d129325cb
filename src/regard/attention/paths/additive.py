"""The additive path: one native loop makes additive scores, weighs them and reads, with no table of queries × keys."""

import math
from collections.abc import Iterator

from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.checks import are_plain_tensors
from regard.attention.call.dot_sides import redrawn
from regard.attention.call.formula import ready, scores_of
from regard.attention.call.recompute import cast, recompute
from regard.attention.cost.cost import Cost
from regard.attention.cost.workload import workload_of
from regard.attention.parts import score
from regard.attention.parts.functional import wide
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.masks import causal
from regard.attention.paths.base import Path, not_softmax
from regard.attention.paths.chunked import has_no_chunks, of_chunks
from regard.kernels.additive import attend


class Additive(Path):
    """Softmax of additive scores (Bahdanau 2015), with no earlier weights in them, on a processor."""

    name = "additive"
    scores = score.Additive, score.LocationAware
    does = "additive scores are weighed and read as they are made, in a loop compiled for this processor"

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        yield from has_no_chunks(call)
        if not call.is_softmax:
            yield not_softmax(call)
        if call.hooked:
            yield "the score or the normalizer has hooks: they are called"
        if call.value is not None and not _is_served(call):
            yield "the loop is for many plain numbers on a processor, where it could be built"

    def table(self, call: Call) -> Mask | None:
        """All but what is causal."""
        return call.summary.beside_causal

    def run(self, call: Call, top: int | None) -> Attended | None:
        """See `Path.run`."""
        assert isinstance(call.score, score.Additive) and call.value is not None
        prepared, keep, lower = ready(call), call.drawn(self.table(call)), call.summary.causal
        *sides, vector = call.score.pair_form(call.query, prepared)
        if not are_plain_tensors(*sides, vector, keep):
            return None
        context = attend.attention(
            *map(wide, (*sides, vector, call.value)),
            keep=keep,
            bias=None if call.bias is None else wide(call.bias),
            causal=lower,
            dropout=call.dropout,
            scale=1 / float(call.normalizer.temperature),
            prepared=call.prepared is not None,
        )

        def drawn_mask() -> Tensor | None:
            return redrawn(call, keep, causal() if lower else None)

        made_from = call.query, prepared.projected, *call.score.parameters()
        source = recompute(call, lambda part: scores_of(call, prepared, part), drawn_mask, *made_from)
        return Attended(cast(call.query.dtype, context), source=source)

    def cost(self, call: Call) -> Cost:
        """No weights are held."""
        return of_chunks(self.name, workload_of(call), at_once=0)


def _is_served(call: Call) -> bool:
    assert isinstance(call.score, score.Additive) and call.value is not None
    if not call.plain or not are_plain_tensors(call.compared(), call.value, call.bias):
        return False
    return attend.serves(call.query, math.prod(call.sizes), call.score.hidden_dim, call.value.shape[-1])
