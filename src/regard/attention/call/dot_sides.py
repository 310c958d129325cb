"""What paths of dot products compute with: the two sides that a score makes, its scale and bias, and weights again."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call import guard
from regard.attention.call.call import Call
from regard.attention.call.checks import are_plain_tensors, check_sides
from regard.attention.call.formula import biased, for_all_heads, ready
from regard.attention.call.recompute import recompute
from regard.attention.parts.functional import dot as formula, unit, wide
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.score_base import DotProduct
from regard.attention.statistics import Statistics
from regard.kernels.autograd.plain import is_readable

NO_DIRECTIONS = False, False


class DotSides(NamedTuple):
    """A call of dot products, as kernels take it: `softmax(scale · left · right + bias) · value`.

    Attributes:
        left: made of the queries.
        right: made of the keys.
        value: as given, in the type of the sides.
        scale: the score's factor over the temperature.
        bias: over the temperature too.
        factor: the score's alone.
        directions: whether the kernel divides the left and the right vectors by their lengths.
        unbound: the sides as the score made them, whatever autocast chose.
    """

    left: Tensor
    right: Tensor
    value: Tensor
    scale: float
    bias: Tensor | None
    factor: float
    directions: tuple[bool, bool]
    unbound: tuple[Tensor, Tensor]

    def are_plain(self, keep: Tensor | None) -> bool:
        """Whether loops may read all of it where it lies: parameters and masks may be of any class."""
        return are_plain_tensors(self.left, self.right, self.value, self.bias, keep)


def dot_sides(call: Call, *, in_loop: bool = False) -> DotSides:
    """The sides of a call.

    Args:
        call: one whose score is a dot product.
        in_loop: a loop takes them that can divide vectors by their lengths.
    """
    score = call.score
    assert isinstance(score, DotProduct) and call.value is not None
    if in_loop:
        left, right, factor, directions = score.loop_form(call.query, call.key, call.prepared)
    else:
        prepared = score.prepare(call.key) if call.prepared is None else call.prepared
        left, right, factor = score.dot_form(call.query, prepared)
        directions = NO_DIRECTIONS
    if left is not call.query or right is not call.key or left.shape[-1] != right.shape[-1]:
        check_sides(call.query, left, call.key, right)
    temperature = float(call.normalizer.temperature)
    bias = None if call.bias is None else wide(call.bias)
    if bias is not None and temperature != 1.0:  # it may be as large as the scores
        bias = bias / temperature
    three = left, right, call.value
    if not (left.dtype is right.dtype is call.value.dtype):
        three = _of_one_dtype(left, right, call.value)
    return DotSides(*three, factor / temperature, bias, factor, directions, (left, right))


def attended(
    call: Call,
    sides: DotSides,
    context: Tensor,
    drawn_mask: Callable[[], Tensor | None],
    *,
    masked_unread: bool = False,
    observed: Callable[[int], Statistics] | None = None,
    statistics: Statistics | None = None,
) -> Attended:
    """What a path of dot products gives: its context, and how to make the weights that it did not form.

    Args:
        call: it was.
        sides: what the path computed with.
        context: in any type.
        drawn_mask: the mask as it was.
        masked_unread: what is masked out may hold anything: the path did not read it.
        observed: makes statistics of the weights without forming them.
        statistics: made already.
    """
    (left, right), directions = sides.unbound, sides.directions

    def scores(part: slice) -> Tensor:
        # From the two sides: an optimizer may have changed the score's parameters meanwhile.
        query_side, key_side, unprepared = left, right, call
        if masked_unread and not (is_readable(left) and guard.is_safe(left, right)):
            drawn = drawn_mask()  # and not what the caller's mask has become
            assert drawn is not None
            query_side, key_side, *_ = guard.guard(left, right, None, drawn)
            unprepared = call._replace(key=key_side)
        query_side = query_side[..., part, :]
        query_side, key_side = (
            unit(query_side) if directions[0] else query_side,
            ready(unprepared).projected if directions[1] else key_side,
        )
        return biased(call, formula(query_side, for_all_heads(call, key_side), sides.factor), part)

    source = recompute(call, scores, drawn_mask, left, right, observed=observed)
    context = context if context.dtype is call.query.dtype else context.to(call.query.dtype)
    return Attended(context, statistics=statistics, source=source)


def redrawn(call: Call, keep: Tensor | None, own: Mask | None) -> Tensor | None:
    """The mask of a call again.

    Args:
        call: it was.
        keep: what was drawn: perhaps of the caller's tensors, which may have changed since.
        own: the rest, which no caller can change.
    """
    drawn = call.drawn(own)
    return keep if drawn is None else drawn if keep is None else keep & drawn


def _of_one_dtype(left: Tensor, right: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In one type, where it is not autocast that chooses one."""
    if not left.is_meta and torch.is_autocast_enabled(left.device.type):
        return left, right, value
    kind = torch.promote_types(left.dtype, value.dtype)
    return left.to(kind), right.to(kind), value.to(kind)
