"""The fused path: torch's `scaled_dot_product_attention`, which forms no table of weights on most devices."""

from collections.abc import Iterator

from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.dot_sides import attended, dot_sides
from regard.attention.cost.cost import WIDTHS, Cost, by_tiles
from regard.attention.cost.workload import drawn_bools, pairs, workload_of
from regard.attention.parts.mask_kinds import Mask
from regard.attention.paths.base import Path, needs_all_weights, not_softmax
from regard.kernels.fallback.sdpa import fused


class Fused(Path):
    """Softmax of dot products on any device, in one call of torch's."""

    name = "fused"
    for_dots = True
    does = "scaled_dot_product_attention computes it"

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        if not call.is_softmax:
            yield not_softmax(call)
        if call.dropout > 0:
            yield "dropout= is above 0, which only plain calls of many positions on a processor take in blocks"
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """All of it, unless it is causal and nothing else."""
        return None if _is_causal_alone(call) else call.mask

    def run(self, call: Call, top: int | None) -> Attended:
        """See `Path.run`."""
        sides, known = dot_sides(call), call.summary
        lower = known.causal and known.beside_causal is None
        keep = None if lower or call.mask is None else call.draw()
        context = fused(
            sides.left,
            sides.right,
            sides.value,
            keep=keep,
            bias=sides.bias,
            causal=lower,
            scale=sides.scale,
            none_fully_masked=keep is None or known.none_fully_masked(),
        )

        def drawn_mask() -> "Tensor | None":  # in quotes: torch 2.9 takes no union of types into a graph
            # What was drawn may be of the caller's tensors, which may have changed.
            return keep if call.summary.rest is not None else call.draw()

        return attended(call, sides, context, drawn_mask)

    def cost(self, call: Call) -> Cost:
        """See `Path.cost`."""
        computed = pairs(call, causal=_is_causal_alone(call))
        return by_tiles(self.name, workload_of(call), computed, drawn_bools(call, self.table(call)), (0, 0), WIDTHS)


def _is_causal_alone(call: Call) -> bool:
    return call.summary.causal and call.summary.beside_causal is None
