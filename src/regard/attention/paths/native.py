"""The native path: one loop compiled for this processor weighs and reads tile by tile, under every mask.

What torch's kernel refuses costs it little: dropout, a learned bias, three axes, values of another width. It skips the
tiles that are masked out whole.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.checks import are_plain_tensors
from regard.attention.call.dot_sides import attended, dot_sides, redrawn
from regard.attention.call.mask_summary import DecomposedMask, decompose
from regard.attention.cost.cost import Cost, by_tiles
from regard.attention.cost.workload import drawn_bools, pairs, workload_of
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.score import Cosine, Dot, ScaledDot
from regard.attention.parts.score_base import DotProduct
from regard.attention.paths.base import Path, needs_all_weights, not_softmax
from regard.attention.statistics import Statistics, checked_top
from regard.kernels.dot import dot, safety


class Native(Path):
    """Softmax of dot products on a processor, where a C++ compiler could build the loop."""

    name = "native"
    for_dots = True
    least = 2**8
    does = "a loop compiled for this processor weighs and reads tile by tile"
    draws_dropout = True

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        if call.traced:  # a comparison of its sizes would tie the trace to them
            yield "torch.compile traces the call, which loops would hide from it"
        elif not dot.is_worthwhile(call.sizes, call.dropout):
            yield "with so few queries and keys torch's fused kernel is as fast"
        if not call.is_softmax:
            yield not_softmax(call)
        if call.value is not None and not (call.plain and _is_served(call)):
            yield "the loop is for plain tensors on a processor, where it could be built"
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """What the loop does not know by itself."""
        return decompose(call.mask, call.sizes).rest

    def checks_while_reading(self, call: Call) -> bool:
        """Whether it reads what the caller gave, with nothing made of it first.

        What is made of masked-out content, parameters say, would get a gradient of 0 · NaN.
        """
        score, prepared = call.score, call.prepared
        given = type(score) in (Dot, ScaledDot) or (type(score) is Cosine and not isinstance(score.strength, Tensor))
        untouched = prepared is None or prepared.projected is prepared.key
        return given and untouched and call.query.dtype in (torch.float32, torch.float64)

    def reads_safely(self, call: Call) -> bool:
        """Whether the loop would say so of what it reads: not all, and a cosine's directions."""
        assert isinstance(call.score, DotProduct) and call.value is not None
        query, key, factor, directions = call.score.loop_form(call.query, call.key, call.prepared)
        return safety.reads_safely(
            query,
            key,
            call.value,
            visible=visible(decompose(call.mask, call.sizes), None),
            scale=factor / float(call.normalizer.temperature),
            directions=directions,
        )

    def run(self, call: Call, top: int | None) -> Attended | None:
        """See `Path.run`."""
        sides, known = dot_sides(call, in_loop=True), decompose(call.mask, call.sizes)
        keep = call.drawn(known.rest)
        if not sides.are_plain(keep):
            return None
        three, masked_unread = (sides.left, sides.right, sides.value), _is_unread(call)
        options: dict[str, Any] = {
            "visible": visible(known, keep),
            "bias": sides.bias,
            "scale": sides.scale,
            "directions": sides.directions,
        }

        def observed(top: int) -> Statistics:
            top = checked_top(top, call.sizes.keys)
            return Statistics(*dot.statistics(sides.left, sides.right, top=top, **options))

        def drawn_mask() -> Tensor | None:
            return redrawn(call, keep, known.known)

        made = None
        if top is None or call.dropout > 0 or dot.needs_gradient(*three, sides.bias):
            check = dot.SafetyCheck() if masked_unread and top is None else None
            context = dot.attention(*three, dropout=call.dropout, seed=call.seed, check=check, **options)
            if check is not None and not check.safe:
                return None
        else:
            top = checked_top(top, call.sizes.keys)
            context, *numbers = dot.attention_and_statistics(*three, top=top, **options)
            made = Statistics(*numbers)
        return attended(
            call, sides, context, drawn_mask, masked_unread=masked_unread, observed=observed, statistics=made
        )

    def cost(self, call: Call) -> Cost:
        """Keys and values are laid as the loop wants them, beside its sums."""
        work, known = workload_of(call), decompose(call.mask, call.sizes)
        score = call.score
        if type(score) is Cosine:  # the loop divides by lengths; a learned strength is made before
            learned = isinstance(score.strength, Tensor)
            work = work._replace(made=work.query if learned else 0)
        packed = (work.key + work.value) * work.wide // 2
        computed = pairs(call, causal=known.causal, lengths=known.lengths, window=known.window, offset=known.offset)
        bools = drawn_bools(call, known.rest)
        return by_tiles(self.name, work, computed, bools, (packed, 2 * packed), "queries × keys seen × heads × width")


def _is_unread(call: Call) -> bool:
    """Whether nobody has looked at what is masked out."""
    return call.mask is not None and call.safe is None and not call.own


def visible(known: DecomposedMask, keep: Tensor | None) -> dot.Visible:
    """A mask taken apart, as the loop takes it.

    Args:
        known: what the loop need not be drawn.
        keep: the rest of the mask, drawn.
    """
    return dot.Visible(known.causal, known.offset, known.window, known.lengths, keep, known.query_lengths)


def _is_served(call: Call) -> bool:
    kind = type(call.query)  # what `serves` finds of one of a class holds for all of it
    for one in (call.compared(), call.value, call.bias):
        if one is not None and type(one) is not kind and not are_plain_tensors(one):
            return False
    assert call.value is not None
    return dot.serves(call.query, call.query, call.value)
