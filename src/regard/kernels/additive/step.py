"""A decoder's step of additive scores by torch's own calls: a few queries, and keys whose exponentials are kept.

The keys come from memory, which has nothing to do while numbers in a cache are divided. So the quotients of some items
are added to the exponentials of the next items' keys. These are kept scaled down so far that the sum changes less than
rounding does (of |b| ≤ 8 nothing at all), and they are in the cache when it is their turn. Torch's operations are few,
for one that was not called just before is slow to start. What a step goes over again lies where the step before it had
it: new pages would cost time, and giving them back as much.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

DOWNSCALE = {torch.float32: 2.0**-76, torch.float64: 2.0**-518}
"""Times e^x for |x| ≤ 34 (float64: 320) this is still a normal number, and less than 2^-26 (2^-56)."""

_BLOCK = 2**17
"""Pairs × hidden units that are held at once: half a mebibyte of float32, and as much of the next keys."""

_spare: dict[torch.dtype, list[Tensor]] = {}
"""The room of the step before, one of a type for the whole program; who takes it takes it out."""


def step_scores(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(a + b)` for each query a and key b; no axis may have size 0.

    Args:
        query: `e^(−2a)`, contiguous.
        key: `e^(−2b)` times `DOWNSCALE`, contiguous; no product of the two exponentials overflows.
        vector: v, contiguous.
    """
    queries, keys, hidden = query.shape[-2], *key.shape[-2:]
    scores = query.new_empty(*query.shape[:-1], keys)
    left = query.view(-1, queries, 1, hidden)
    several = min(len(left), max(1, _BLOCK // (queries * keys * hidden)))
    shape = several, queries, keys, hidden
    room = _room(query, math.prod(shape))
    held = room[: math.prod(shape)].view(shape)
    matrix, to, minus = held.view(-1, hidden), scores.view(-1), vector.new_full((), -1)
    some = key.view(-1, 1, keys, hidden).unsafe_split(several)
    parts = left.unsafe_split(several), some, (*some[1:], some[-1]), to.unsafe_split(len(matrix))
    clear = -1 / DOWNSCALE[key.dtype]
    for a, b, later, s in zip(*parts, strict=True):
        if len(a) < len(held):
            held, matrix = held[: len(a)], matrix[: len(s)]
        torch.addcmul(minus, b, a, value=clear, out=held)
        torch.addcdiv(later if len(later) == len(a) else b, minus, held, out=held)  # σ(2 (a + b))
        torch.mv(matrix, vector, out=s)
    if len(room) == _BLOCK:
        _spare[room.dtype] = [room]
    return torch.addcmul(torch.mv(minus.expand(1, hidden), vector), scores, minus, value=-2, out=scores)


def _room(like: Tensor, numbers: int) -> Tensor:
    """Room for so many numbers, which nobody else has before it is put back."""
    if numbers > _BLOCK:
        return like.new_empty(numbers)
    try:
        return _spare[like.dtype].pop()
    except (KeyError, IndexError):
        with torch.inference_mode(False):  # a later step may be outside of it
            return like.new_empty(_BLOCK)
