"""The projected path: a sequence attends to itself, and is read where one product left its three parts."""

from collections.abc import Iterator

from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.dot_sides import attended, dot_sides
from regard.attention.cost.cost import WIDTHS, Cost, by_tiles
from regard.attention.cost.workload import pairs, workload_of
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.score import ScaledDot
from regard.attention.paths.base import Path, needs_all_weights, not_softmax
from regard.kernels.transformer import self_attention


class Projected(Path):
    """Softmax of scaled dot products in training, all positions or causal, on a processor."""

    name = "projected"
    does = "a loop reads queries, keys and values where one product left them, and writes their gradients side by side"
    scores = (ScaledDot,)

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        if call.projected is None:
            yield "queries, keys and values are not parts of one product"
            return
        if call.mask is not None and not (call.summary.causal and call.summary.beside_causal is None):
            yield "the mask is more than causal"
        if call.bias is not None:
            yield "bias= is given"
        if call.dropout > 0:
            yield "dropout= is above 0"
        if not call.is_softmax:
            yield not_softmax(call)
        heads, key_heads, width = call.query.shape[1], call.key.shape[1], call.query.shape[3]
        if not self_attention.serves(call.projected, heads, key_heads, width):
            yield "the loop is for plain float32 with gradients on a processor, and sequences of moderate length"
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """None: it knows what is causal."""
        return None

    def run(self, call: Call, top: int | None) -> Attended:
        """See `Path.run`."""
        assert call.projected is not None
        sides, (heads, key_heads) = dot_sides(call), (call.query.shape[1], call.key.shape[1])
        lower = call.mask is not None
        context = self_attention.attention(call.projected, heads, key_heads, causal=lower, scale=sides.scale)

        def drawn_mask() -> Tensor | None:
            return call.draw()

        return attended(call, sides, context.unflatten(-1, (heads, -1)).transpose(1, 2), drawn_mask)

    def cost(self, call: Call) -> Cost:
        """Nothing is copied."""
        computed = pairs(call, causal=call.mask is not None)
        return by_tiles(self.name, workload_of(call), computed, 0, (0, 0), WIDTHS)
