"""Additive scores `vᵀ tanh(a + b)` of all pairs, without a tanh for each of them and without their table.

tanh(a + b) = 2 σ(2 (a + b)) − 1 and σ(2 (a + b)) = 1 / (1 + e^(−2a) · e^(−2b)): the exponentials are made once for each
position, and a pair costs a product and a division. Pairs × hidden units is never held: pairs are gone through in
blocks, forwards and, made again, backwards. A compiled loop (`additive.cpp`) does the same where there is a compiler.

Exponentials overflow, tanh does not. So they are taken where one side is narrow: |b| ≤ 17 (in float32) for all b,
perhaps once its middle, hidden unit by hidden unit, went over to the other side; that one may then be cut off at ±27,
for beyond it the sum is past ±10, where tanh is ±1. No product reaches e^88 = 1.7e38. What has two wide sides (NaN and
inf are wide) goes through blocks of σ(2 (a + b)) itself.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.kernels import compiler

_BLOCK = 2**18
"""Numbers in a block of pairs × hidden units: a mebibyte of float32."""

# Pairs × hidden units from which on a call is faster here, measured forwards and backwards.
_LEAST, _LEAST_COMPILED = 2**19, 2**16

# The widest narrow side, and where the other one may be cut off.
_REACH = {torch.float32: (17.0, 27.0), torch.float64: (160.0, 180.0)}


class Sides(NamedTuple):
    """What the pairs are made from.

    Attributes:
        query: `e^(−2a)`, `(items, queries, hidden)`, or a where `exponential` is false.
        key: `e^(−2b)`, `(items, keys, hidden)`, or b.
        exponential: whether products may be taken.
    """

    query: Tensor
    key: Tensor
    exponential: bool


class _Kept(NamedTuple):
    """What is kept of keys between the steps of a decoder, while the keys are alive and unchanged."""

    version: int
    key: Tensor | None


_kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def serves(like: Tensor, numbers: int) -> bool:
    """Whether this path takes a call: a plain one on a CPU, and large enough to be faster here than as a formula.

    Args:
        like: one of what the call is given. Without content (meta) it is judged as if it were on a CPU.
        numbers: pairs × hidden units.
    """
    if like.device.type not in ("cpu", "meta") or torch.compiler.is_compiling():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0:
        return False
    return numbers >= _LEAST_COMPILED and (numbers >= _LEAST or compiler.library("additive") is not None)


def additive_scores(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    vector: Float[Tensor, " hidden"],
    formula: Callable[[Tensor, Tensor, Tensor], Tensor],
    prepared: bool = False,
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(a + b)` for each query a and key b (Bahdanau 2015, A.1.2), in float32 or float64.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
        formula: the same as torch's own operations, for derivatives of derivatives.
        prepared: the keys were made ready for many calls: their exponentials are kept while this tensor lives, so that
            a decoder's next step finds them.

    The scores differ from the formula's by some units in the last place of `Σ|v|`, gradients likewise.
    """
    scores: Tensor = _Scores.apply(query, key, vector, formula, prepared)
    return scores


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, vector: Tensor, formula: Any, prepared: bool) -> Tensor:
        sides = _sides(query, key, prepared)
        ctx.save_for_backward(query, key, vector, sides.query, sides.key)
        ctx.formula, ctx.exponential = formula, sides.exponential
        scores = query.new_empty(*query.shape[:-1], key.shape[-2])
        vector = vector.contiguous()
        loop = _loop("forward", sides)
        if loop:
            loop(sides.query, sides.key, vector, scores)
            return scores
        flat = scores.view(-1, *scores.shape[-2:])
        for at, ratio in _blocks(sides):
            flat[at] = torch.matmul(ratio, vector)
        return scores.mul_(2).sub_(vector.sum())

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, query_side, key_side = ctx.saved_tensors
        if torch.is_grad_enabled():  # a derivative of this one is wanted
            scores = ctx.formula(query, key, vector)
            wanted = [one for one in (query, key, vector) if one.requires_grad]
            found = iter(torch.autograd.grad(scores, wanted, given, create_graph=True))
            return *(next(found) if one.requires_grad else None for one in (query, key, vector)), None, None
        sides = Sides(query_side, key_side, ctx.exponential)
        given = given.contiguous()
        into_query, into_key, into_vector = (
            torch.zeros(part.shape, dtype=part.dtype) for part in (query_side, key_side, vector)
        )
        loop = _loop("backward", sides)
        if loop:
            loop(sides.query, sides.key, given, into_query, into_key, into_vector)
        else:
            _backward_blocks(sides, given.view(-1, *given.shape[-2:]), into_query, into_key, into_vector)
        slope = 4 * vector
        return (
            into_query.mul_(slope).view(query.shape),
            into_key.mul_(slope).view(key.shape),
            into_vector.mul_(2).sub_(given.sum()),
            None,
            None,
        )


def _backward_blocks(sides: Sides, given: Tensor, into_query: Tensor, into_key: Tensor, into_vector: Tensor) -> None:
    """Sums of g r (1 − r) over keys and over queries, and of g r over both, for r = σ(2 (a + b))."""
    for (items, rows, columns), ratio in _blocks(sides):
        part = given[items, rows, columns]
        into_vector.addmv_(ratio.flatten(0, 2).t(), part.flatten())
        steep = torch.addcmul(ratio, ratio, ratio, value=-1, out=ratio)
        into_query[items, rows] += torch.matmul(part.unsqueeze(-2), steep).squeeze(-2)
        into_key[items, columns] += steep.mul_(part.unsqueeze(-1)).sum(1)


def _blocks(sides: Sides) -> Iterator[tuple[tuple[slice, slice, slice], Tensor]]:
    """Where a block of pairs lies (items, queries, keys), and `σ(2 (a + b))` of it; the next block overwrites it."""
    (items, queries, hidden), keys = sides.query.shape, sides.key.shape[1]
    columns = min(keys, max(1, _BLOCK // hidden))
    rows = min(queries, max(1, _BLOCK // (columns * hidden)))
    several = max(1, _BLOCK // (rows * columns * hidden)) if rows == queries and columns == keys else 1
    held = sides.query.new_empty(min(several, items) * rows * columns * hidden)
    one = sides.query.new_ones(())
    for item in range(0, items, several):
        for row in range(0, queries, rows):
            for column in range(0, keys, columns):
                at = slice(item, item + several), slice(row, row + rows), slice(column, column + columns)
                left, right = sides.query[at[0], at[1]].unsqueeze(2), sides.key[at[0], at[2]].unsqueeze(1)
                shape = (left.shape[0], left.shape[1], right.shape[2], hidden)
                ratio = held[: shape[0] * shape[1] * shape[2] * hidden].view(shape)
                if sides.exponential:
                    torch.addcmul(one, left, right, out=ratio).reciprocal_()
                else:
                    torch.add(left, right, out=ratio).mul_(2).sigmoid_()
                yield at, ratio


# --- the two sides --------------------------------------------------------------------------------------------------


def _sides(query: Tensor, key: Tensor, prepared: bool) -> Sides:
    reach, cut = _REACH[query.dtype]
    narrow = (_kept_of if prepared else _narrow)(key, reach)
    if narrow is not None:
        return Sides(_exponential(query, cut), narrow, True)
    query, key = query.reshape(-1, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:])
    narrow = _narrow(query, reach)
    if narrow is not None:
        return Sides(narrow, _exponential(key, cut), True)
    for here, there, swapped in ((key, query, False), (query, key, True)):
        middle = (here.amax(-2, keepdim=True) + here.amin(-2, keepdim=True)) / 2
        narrow = _narrow(here - middle, reach)
        if narrow is not None:
            other = _exponential(there + middle, cut)
            return Sides(narrow, other, True) if swapped else Sides(other, narrow, True)
    return Sides(query, key, False)  # not doubled: the largest numbers may yet cancel


def _narrow(side: Tensor, reach: float) -> Tensor | None:
    """The exponentials of a side if it is narrow."""
    # Where there is a NaN it is the largest, and not at most anything.
    return _exponential(side, reach) if torch.linalg.vector_norm(side, torch.inf) <= reach else None


def _kept_of(key: Tensor, reach: float) -> Tensor | None:
    """`_narrow` of keys, made once while they live."""
    if key.is_inference():  # such a tensor does not count its changes
        return _narrow(key, reach)
    kept = _kept.get(key)
    if kept is None or kept.version != key._version:
        kept = _Kept(key._version, _narrow(key, reach))
        _kept[key] = kept
    return kept.key


def _exponential(side: Tensor, cut: float) -> Tensor:
    return side.reshape(-1, *side.shape[-2:]).clamp(-cut, cut).mul_(-2).exp_()


# --- the compiled loop ----------------------------------------------------------------------------------------------


def _loop(way: str, sides: Sides) -> Callable[..., None] | None:
    """The compiled loop of this way as a function of tensors, None where there's none."""
    library = compiler.library("additive") if sides.exponential else None
    if library is None:
        return None
    run = getattr(library, f"additive_{way}_{str(sides.query.dtype).removeprefix('torch.')}")
    run.restype = None
    sizes = *sides.query.shape[:2], *sides.key.shape[1:], torch.get_num_threads()

    def loop(*tensors: Tensor) -> None:
        run(*map(ctypes.c_int64, sizes), *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors))

    return loop
