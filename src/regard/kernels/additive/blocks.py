"""Additive scores pair by pair, by torch's own operations, in blocks that a core's own cache holds.

Of each pair and hidden unit r = σ(2 (a + b)) is made: tanh(a + b) is 2 r − 1, and its slope 4 r (1 − r). Sums over
keys, over queries and over both are products with what a block's pairs are multiplied by, so that nothing but r has its
size. An operation of torch's that was not called just before takes some microseconds to get going, whatever its size:
so the sides of several items are made ready at once, and all is done in inference mode, where an operation gets going
some tenths of a microsecond sooner. Tensors that are returned are made outside of it, like any other.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.additive.step import DOWNSCALE
from regard.kernels.native.huge_pages import in_large_pages

BLOCK = 2**18
"""Pairs × hidden units that are held at once: a mebibyte of float32."""

_READY = 2**17
"""Positions × hidden units that are made ready at once, where there are several items."""

_PRODUCT = 400
"""Multiplications from which on torch (2.13) leaves a product to a library; by itself it takes many times as long."""

# The widest narrow side, and where the other one may be cut off.
REACH = {torch.float32: (17.0, 26.5), torch.float64: (160.0, 180.0)}


class _Sides(NamedTuple):
    """What the pairs of some items are made from.

    Attributes:
        query: `e^(−2a)`, `(items, queries, hidden)`, or a where `exponential` is false.
        key: `e^(−2b)`, `(items, keys, hidden)`, or b; scaled down where it was kept.
        exponential: whether products may be taken.
    """

    query: Tensor
    key: Tensor
    exponential: bool


def scores(
    query: Float[Tensor, "items queries hidden"],
    key: Float[Tensor, "items keys hidden"],
    vector: Float[Tensor, " hidden"],
    exponentials: Float[Tensor, "items keys hidden"] | None,
) -> Float[Tensor, "items queries keys"]:
    """Sums of `v r` over the hidden units.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
        exponentials: `e^(−2b)`, scaled down, if it is there.
    """
    blocks, found = _Blocks(query, key), query.new_empty(*query.shape[:2], key.shape[1])
    with torch.inference_mode():
        for ratio, to in zip(blocks.ratios(exponentials), blocks.cut(found), strict=True):
            torch.mv(ratio.view(-1, len(vector)), vector, out=to.view(-1))
    return found


def gradients(
    query: Float[Tensor, "items queries hidden"],
    key: Float[Tensor, "items keys hidden"],
    exponentials: Float[Tensor, "items keys hidden"] | None,
    given: Float[Tensor, "items queries keys"],
    slope: Float[Tensor, " hidden"],
) -> tuple[Float[Tensor, "items queries hidden"], Float[Tensor, "items keys hidden"], Float[Tensor, " hidden"]]:
    """Sums of `g r (1 − r)` over keys and over queries, times the slope, and of `g r` over both.

    Args:
        query: a, projected.
        key: b, projected.
        exponentials: `e^(−2b)`, scaled down, if it is there.
        given: g, gradients of the scores.
        slope: of each hidden unit.
    """
    blocks, into_vector, hidden = _Blocks(query, key), query.new_zeros(query.shape[-1]), query.shape[-1]
    into_query, into_key = (in_large_pages(side.new_empty(side.shape)) for side in (query, key))
    transposed = given.mT.contiguous().mT  # its rows as a product with queries wants them
    to_all = (blocks.cut(one) for one in (into_query.unsqueeze(2), into_key.unsqueeze(1)))
    cut = zip(blocks.ratios(exponentials), blocks.cut(given), blocks.cut(transposed), *to_all, strict=True)
    whole: Tensor | None = None
    with torch.inference_mode():
        for number, (ratio, g, h, to_query, to_key) in enumerate(cut):
            row, column = divmod(number % (blocks.down * blocks.across), blocks.across)
            if ratio is not whole:
                whole, flat, pairs = ratio, ratio.view(-1, hidden).T, ratio.flatten(0, 1)
                (items, rows, columns, _), by_key = ratio.shape, pairs.transpose(0, 1)
            torch.addmv(into_vector, flat, g.reshape(-1), out=into_vector)
            torch.addcmul(ratio, ratio, ratio, value=-1, out=ratio)
            by_products = columns * hidden >= _PRODUCT, items == 1 and rows * hidden >= _PRODUCT
            if by_products[0]:
                to, left = to_query.view(-1, 1, hidden), g.reshape(-1, 1, columns)
                torch.baddbmm(to, left, pairs, beta=min(column, 1), out=to)
            if by_products[1]:
                to, left = to_key.view(-1, 1, hidden), h[0].T.unsqueeze(1)
                torch.baddbmm(to, left, by_key, beta=min(row, 1), out=to)
            if not all(by_products):
                ratio.mul_(g.unsqueeze(-1))
            for done, to, axis, before in zip(by_products, (to_query, to_key), (2, 1), (column, row), strict=True):
                if not done and before:
                    to.add_(ratio.sum(axis, keepdim=True))
                elif not done:
                    torch.sum(ratio, axis, keepdim=True, out=to)
            if column + 1 == blocks.across:
                to_query.mul_(slope)
            if row + 1 == blocks.down:
                to_key.mul_(slope)
    return into_query, into_key, into_vector


class _Blocks:
    """Pairs of several items, or of some queries and some keys of one.

    Attributes:
        several: how many items at once.
        rows: how many of an item's queries at once.
        columns: how many of its keys at once; if not all, rows is 1.
        down, across: how many blocks an item has for its queries and, one after the other, for its keys.
    """

    def __init__(self, query: Tensor, key: Tensor) -> None:
        self.query, self.key = query, key
        (items, queries, self.hidden), keys = query.shape, key.shape[1]
        self.columns = even(keys, BLOCK // self.hidden)
        self.rows = even(queries, BLOCK // (self.columns * self.hidden))
        whole = (self.rows, self.columns) == (queries, keys)
        self.several = even(items, BLOCK // (queries * keys * self.hidden)) if whole else 1
        self._sizes = items, queries, keys
        self.down, self.across = -(-queries // self.rows), -(-keys // self.columns)

    def ratios(self, exponentials: Tensor | None) -> Iterator[Tensor]:
        """σ(2 (a + b)) of each block, `(items, queries, keys, hidden)`, which the next block overwrites.

        Args:
            exponentials: `e^(−2b)`, scaled down, if it is there.
        """
        clear = 1.0 if exponentials is None else 1 / DOWNSCALE[exponentials.dtype]
        held = self.query.new_empty(self.several * self.rows * self.columns * self.hidden)
        ratio, one = held[:0], self.query.new_ones(())
        for sides in self._ready(exponentials):
            for a, b in zip(self.cut(sides.query.unsqueeze(2)), self.cut(sides.key.unsqueeze(1)), strict=True):
                shape = (len(a), a.shape[1], b.shape[2], self.hidden)
                if ratio.shape != shape:
                    ratio = held[: math.prod(shape)].view(shape)
                if sides.exponential:
                    torch.addcmul(one, b, a, value=clear, out=ratio).reciprocal_()
                else:
                    torch.add(a, b, out=ratio).mul_(2).sigmoid_()
                yield ratio

    def cut(self, tensor: Tensor) -> Iterator[Tensor]:
        """An array `(items, queries, keys, …)`, block by block; an axis of 1 is not cut: every block gets it whole."""
        _, queries, keys = self._sizes
        for of_items in _split(tensor, self.several, 0, len(tensor)):
            for of_rows in _split(of_items, self.rows, 1, queries):
                yield from _split(of_rows, self.columns, 2, keys)

    def _ready(self, exponentials: Tensor | None) -> Iterator[_Sides]:
        """The sides of some blocks' items at a time."""
        if exponentials is not None:  # few queries, whose exponentials are made at once
            yield _Sides(exponential(self.query, REACH[self.query.dtype][1]), exponentials, True)
            return
        of_block = self.several * (self.query.shape[1] + self.key.shape[1]) * self.hidden
        items = self.several * max(1, _READY // of_block)
        for query, key in zip(self.query.split(items), self.key.split(items), strict=True):
            yield _sides(query, key)


def _split(tensor: Tensor, step: int, axis: int, size: int) -> Iterable[Tensor]:
    if step >= size:
        return (tensor,)
    return tensor.unsafe_split(step, axis) if tensor.shape[axis] == size else [tensor] * -(-size // step)


def even(size: int, most: int) -> int:
    """How long parts are of which none is longer than `most`, and none much shorter than another."""
    return -(-size // -(-size // max(1, most)))


def _sides(query: Tensor, key: Tensor) -> _Sides:
    """What the pairs of these queries and keys are made from; see the head of `additive.py`. The loop does likewise."""
    reach, cut = REACH[query.dtype]
    if is_narrow(key, reach):
        return _Sides(exponential(query, cut), exponential(key), True)
    if is_narrow(query, reach):
        return _Sides(exponential(query), exponential(key, cut), True)
    for here, there, swapped in ((key, query, False), (query, key, True)):
        middle = (here.amax(-2, keepdim=True) + here.amin(-2, keepdim=True)) / 2
        centred = here - middle
        if is_narrow(centred, reach):
            narrow, other = exponential(centred), exponential(there + middle, cut)
            return _Sides(narrow, other, True) if swapped else _Sides(other, narrow, True)
    return _Sides(query, key, False)  # not doubled: the largest numbers may yet cancel


def is_narrow(side: Tensor, reach: float) -> bool:
    """Whether all numbers are at most `reach` from 0, and none is NaN."""
    low, high = torch.aminmax(side)  # both NaN where one is, which is not at most anything
    return -reach <= float(low) and float(high) <= reach


def exponential(side: Tensor, cut: float | None = None) -> Tensor:
    """`e^(−2x)` of x clamped to ± `cut`."""
    doubled = torch.mul(side, -2)
    return (doubled if cut is None else doubled.clamp_(-2 * cut, 2 * cut)).exp_()
