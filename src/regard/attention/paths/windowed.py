"""The windowed path: a block of queries meets the keys of its own window alone."""

from collections.abc import Iterator

from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.dot_sides import attended, dot_sides
from regard.attention.cost.cost import Cost, by_tiles
from regard.attention.cost.workload import workload_of
from regard.attention.parts.mask_kinds import Mask
from regard.attention.paths.base import Path, needs_all_weights, not_softmax
from regard.attention.paths.blocked import LARGE, gains_nothing_by_blocks
from regard.kernels.fallback import windowed

_SPARE = 2**8  # keys that a window must leave out beside four times its own, as measured


class Windowed(Path):
    """Softmax of dot products under a window that masks most keys out."""

    name = "windowed"
    for_dots = True
    least = LARGE
    does = "the mask is a window: a block of queries meets the keys of its own window alone"

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        window, known = call.summary.window, call.summary
        if window is None or known.rest is not None or known.lengths is not None:
            yield "the mask is not a window and nothing else"
        elif 4 * sum(window) + _SPARE > call.sizes.keys:
            yield "the window masks too few keys out"
        yield from gains_nothing_by_blocks(call)
        if call.bias is not None:
            yield "bias= is given"
        if call.dropout > 0:
            yield "dropout= is above 0"
        if not call.is_softmax:
            yield not_softmax(call)
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """None: the window says all."""
        return None

    def run(self, call: Call, top: int | None) -> Attended | None:
        """See `Path.run`."""
        sides, window = dot_sides(call), call.summary.window
        if not sides.are_plain(None):
            return None
        assert window is not None
        left, right = window
        context = windowed.windowed(sides.left, sides.right, sides.value, left=left, right=right, scale=sides.scale)

        def drawn_mask() -> Tensor | None:
            return call.draw()

        return attended(call, sides, context, drawn_mask)

    def cost(self, call: Call) -> Cost:
        """Each block of queries meets its rows of keys, and the window beside them."""
        work, window, sizes = workload_of(call), call.summary.window, call.sizes
        assert window is not None
        rows = windowed.block_rows(*window)
        width = rows + sum(window)
        computed = sizes.batch * sizes.heads * -(-sizes.queries // rows) * rows * width
        mask = 2 * sizes.queries * width * work.wide
        alike, answer = work.of_all_heads * work.given, work.context * work.given
        held = mask + alike + answer, 4 * mask + 2 * alike + answer
        return by_tiles(self.name, work, computed, 0, held, "positions × window × heads × width")
