"""The blocked path: some queries' weights at a time, with a hand-written backward, for what torch's kernel refuses."""

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.dot_sides import attended, dot_sides, redrawn
from regard.attention.cost.cost import WIDTHS, Cost, by_tiles
from regard.attention.cost.workload import drawn_bools, pairs, workload_of
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.masks import causal
from regard.attention.paths.base import Path, needs_all_weights, not_softmax
from regard.kernels.fallback import blocked

LARGE = 2**16
"""Queries × keys of a head from which on blocks are faster than all weights at once, as measured."""


class Blocked(Path):
    """Softmax of dot products with dropout, or with a large bias that needs a gradient, on a processor."""

    name = "blocked"
    for_dots = True
    least = LARGE
    does = "weights are made for a block of queries at a time, with dropout and the gradient of a bias"

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        yield from gains_nothing_by_blocks(call)
        if not call.dropout > 0 and not _learns_large_bias(call):
            yield "torch's fused kernel is faster without dropout and without a large bias= that needs a gradient"
        if not call.is_softmax:
            yield not_softmax(call)
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """All but what is causal."""
        return call.summary.beside_causal

    def run(self, call: Call, top: int | None) -> Attended | None:
        """See `Path.run`."""
        sides, keep, lower = dot_sides(call), call.drawn(self.table(call)), call.summary.causal
        if not sides.are_plain(keep):
            return None
        context = blocked.blocked(
            sides.left,
            sides.right,
            sides.value,
            keep=keep,
            bias=sides.bias,
            causal=lower,
            scale=sides.scale,
            dropout=call.dropout,
        )

        def drawn_mask() -> Tensor | None:
            return redrawn(call, keep, causal() if lower else None)

        return attended(call, sides, context, drawn_mask)

    def cost(self, call: Call) -> Cost:
        """See `Path.cost`."""
        work = workload_of(call)
        block = min(work.weights, blocked.BLOCK) * work.wide
        alike = work.of_all_heads * work.given
        held = 10 * block + alike, 12 * block + 2 * alike
        computed = pairs(call, causal=call.summary.causal)
        return by_tiles(self.name, work, computed, drawn_bools(call, self.table(call)), held, WIDTHS)


def gains_nothing_by_blocks(call: Call) -> Iterator[str]:
    """Why a path with a hand-written backward may not be taken, or isn't worth it."""
    if call.traced:
        yield "torch.compile traces the call, which hand-written backward passes would hide from it"
    if not call.query.is_cpu or not call.is_plain():
        yield "blocks are for plain tensors on a processor, outside of autocast"


def _learns_large_bias(call: Call) -> bool:
    """Whether torch's fused kernel would refuse the bias, and blocks are faster with gradients, too."""
    learned = call.bias is not None and call.bias.requires_grad and torch.is_grad_enabled()
    return learned and call.sizes.queries * call.sizes.keys >= 16 * LARGE
