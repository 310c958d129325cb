"""Additive scores by torch's own operations, a block of pairs at a time: what takes them where no compiler is.

Of each pair and hidden unit r = σ(2 (a + b)) is made: tanh(a + b) is 2 r − 1, and its slope 4 r (1 − r). A block is
small enough for a core's own cache, and the next one overwrites it. The backward pass makes r again.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

BLOCK = 2**18
"""Pairs × hidden units that are held at once: a mebibyte of float32."""

# The widest narrow side, and where the other one may be cut off.
_REACH = {torch.float32: (17.0, 26.5), torch.float64: (160.0, 180.0)}


def scores(
    query: Float[Tensor, "items queries hidden"],
    key: Float[Tensor, "items keys hidden"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "items queries keys"]:
    """`vᵀ tanh(a + b)` for each query a and key b (Bahdanau 2015, A.1.2). Gradients must be off.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
    """
    found = query.new_empty(*query.shape[:2], key.shape[1])
    for block, ratio in _ratios(query, key):
        found[block] = ratio @ vector
    return found.mul_(2).sub_(vector.sum())


def gradients(
    query: Float[Tensor, "items queries hidden"],
    key: Float[Tensor, "items keys hidden"],
    vector: Float[Tensor, " hidden"],
    given: Float[Tensor, "items queries keys"],
) -> tuple[Float[Tensor, "items queries hidden"], Float[Tensor, "items keys hidden"], Float[Tensor, " hidden"]]:
    """The gradients of a, b and v. Gradients of these must be off.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
        given: gradients of the scores.
    """
    to_query, to_key, to_vector = (one.new_zeros(one.shape) for one in (query, key, vector))
    for (some, rows, columns), ratio in _ratios(query, key):
        above = given[some, rows, columns].unsqueeze(-1)
        to_vector.addmv_(ratio.flatten(0, 2).T, above.flatten())
        ratio.addcmul_(ratio, ratio, value=-1).mul_(above)
        to_query[some, rows] += ratio.sum(2)
        to_key[some, columns] += ratio.sum(1)
    slope = 4 * vector
    return to_query.mul_(slope), to_key.mul_(slope), to_vector.mul_(2).sub_(given.sum())


def _ratios(query: Tensor, key: Tensor) -> Iterator[tuple[tuple[slice, slice, slice], Tensor]]:
    """Each block's items, queries and keys, and its σ(2 (a + b)), `(items, queries, keys, hidden)`.

    A block has several items, or some queries of one, or some keys of one query.
    """
    (items, queries, hidden), keys = query.shape, key.shape[1]
    columns = _at_most(keys, BLOCK // hidden)
    rows = _at_most(queries, BLOCK // (columns * hidden))
    several = _at_most(items, BLOCK // (queries * keys * hidden))
    held = query.new_empty(several * rows * columns * hidden)
    one = query.new_ones(())
    for item in range(0, items, several):
        some = slice(item, item + several)
        a, b, are_exponentials = _sides(query[some], key[some])
        for row in range(0, queries, rows):
            for column in range(0, keys, columns):
                block = some, slice(row, row + rows), slice(column, column + columns)
                left, right = a[:, block[1], None], b[:, None, block[2]]
                shape = len(left), left.shape[1], right.shape[2], hidden
                ratio = held[: math.prod(shape)].view(shape)
                if are_exponentials:
                    torch.addcmul(one, left, right, out=ratio).reciprocal_()
                else:
                    torch.add(left, right, out=ratio).mul_(2).sigmoid_()
                yield block, ratio


def _at_most(size: int, most: int) -> int:
    return min(size, max(1, most))


def _sides(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, bool]:
    """`e^(−2a)`, `e^(−2b)` and True; of two wide sides a, b and False. See the head of `additive.py`."""
    reach, cut = _REACH[query.dtype]
    if _is_narrow(key, reach):
        return _exponentials(query.clamp(-cut, cut)), _exponentials(key), True
    if _is_narrow(query, reach):
        return _exponentials(query), _exponentials(key.clamp(-cut, cut)), True
    return query, key, False  # not doubled: the largest numbers may yet cancel


def _is_narrow(side: Tensor, reach: float) -> bool:
    """Whether all numbers are at most `reach` from 0, and none is NaN."""
    low, high = torch.aminmax(side)  # both NaN where one is, which is not at most anything
    return -reach <= float(low) and float(high) <= reach


def _exponentials(side: Tensor) -> Tensor:
    return torch.mul(side, -2).exp_()
