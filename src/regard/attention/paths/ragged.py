"""The ragged path: each item of a batch by itself, with its own keys alone."""

from collections.abc import Iterator

from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.dot_sides import attended, dot_sides
from regard.attention.cost.cost import Cost, by_tiles
from regard.attention.cost.workload import pairs, workload_of
from regard.attention.parts.mask_kinds import Mask
from regard.attention.paths.base import Path, needs_all_weights, not_softmax
from regard.attention.paths.blocked import LARGE, gains_nothing_by_blocks
from regard.kernels.fallback.ragged import ragged


class Ragged(Path):
    """Softmax of dot products under lengths, perhaps with a causal mask too."""

    name = "ragged"
    for_dots = True
    least = LARGE
    does = "the mask is lengths: torch's fused kernel computes each item with its own keys"

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        if not call.summary.ragged():
            yield "the mask is not lengths, perhaps with a causal one, and nothing else"
        yield from gains_nothing_by_blocks(call)
        if call.dropout > 0:
            yield "dropout= is above 0"
        if not call.is_softmax:
            yield not_softmax(call)
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """None: lengths say all."""
        return None

    def run(self, call: Call, top: int | None) -> Attended | None:
        """See `Path.run`."""
        sides, known = dot_sides(call), call.summary
        if not sides.are_plain(None):
            return None
        assert known.lengths is not None
        context = ragged(
            sides.left,
            sides.right,
            sides.value,
            lengths=known.lengths,
            bias=sides.bias,
            causal=known.causal,
            scale=sides.scale,
            ragged_queries=known.ragged_queries,
        )

        def drawn_mask() -> Tensor | None:
            return call.draw()

        return attended(call, sides, context, drawn_mask)

    def cost(self, call: Call) -> Cost:
        """Items one by one, then laid together."""
        work, known = workload_of(call), call.summary
        held = work.context * work.given, (work.query + work.key + work.value + work.context) * work.given
        computed = pairs(call, causal=known.causal, lengths=known.lengths)
        return by_tiles(self.name, work, computed, 0, held, "queries × own keys × heads × width")
