"""Additive scores `vᵀ tanh(a + b)` of all pairs, without a tanh for each of them and without their table.

tanh(a + b) = 2 σ(2 (a + b)) − 1 and σ(2 (a + b)) = 1 / (1 + e^(−2a) · e^(−2b)): the exponentials are made once for each
position, and a pair costs a product and a division. Pairs × hidden units is never held: pairs are gone through in
blocks, forwards and, made again, backwards. A compiled loop (`additive.cpp`) does the same where there is a compiler.

Exponentials overflow, tanh does not. So they are taken where one side is narrow: |b| ≤ 17 (in float32) for all b,
perhaps once its middle, hidden unit by hidden unit, went over to the other side; that one may then be cut off at ±26.5,
for beyond it the sum is past ±9.5, where tanh is ±1. No product reaches e^88 = 1.7e38. What has two wide sides (NaN and
inf are wide) goes through blocks of σ(2 (a + b)) itself.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.kernels import compiler

_BLOCK = 2**18
"""Pairs × hidden units that are held at once: a mebibyte of float32."""

# Pairs × hidden units from which on a call is faster here, measured forwards and backwards.
_LEAST, _LEAST_COMPILED = 2**19, 2**16

# The widest narrow side, and where the other one may be cut off.
_REACH = {torch.float32: (17.0, 26.5), torch.float64: (160.0, 180.0)}


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
    """What is kept of keys between the steps of a decoder, while the keys are alive and unchanged.

    Changes are those that torch counts (`tensor._version`); one through `tensor.data` or another library's view of the
    same memory it doesn't, and nobody may make it.
    """

    version: int
    key: Tensor | None


_kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def serves(like: Tensor, numbers: int) -> bool:
    """Whether this path takes a call: a plain one on a CPU, and large enough to be faster here than as a formula.

    Args:
        like: one of what the call is given. Without content (meta) it is judged as if it were on a CPU.
        numbers: pairs × hidden units.
    """
    if like.device.type not in ("cpu", "meta") or torch.compiler.is_compiling() or isinstance(like, FakeTensor):
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
        sides = sides_of(query, key, prepared)
        ctx.save_for_backward(query, key, vector, sides.query, sides.key)
        ctx.formula, ctx.exponential = formula, sides.exponential
        scores = query.new_empty(*query.shape[:-1], key.shape[-2])
        run = loop("additive", "forward", query.dtype)
        if run:
            x, y, v = padded(sides.query), padded(sides.key), padded(vector)
            sizes = *x.shape[:2], *y.shape[1:], torch.get_num_threads(), sides.exponential
            run(*sizes, *map(Tensor.data_ptr, (x, y, v, scores)))
            return scores
        flat = scores.view(-1, *scores.shape[-2:])
        vector = vector.contiguous()
        for at, ratio in _blocks(sides, _BLOCK):
            flat[at] = torch.matmul(ratio, vector)
        return scores.mul_(2).sub_(vector.sum())

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        # A backward pass within autocast would narrow what the forward pass has widened.
        with torch.autocast(given.device.type, enabled=False):
            return *_Scores.gradients(ctx, given), None, None

    @staticmethod
    def gradients(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, query_side, key_side = ctx.saved_tensors
        if torch.is_grad_enabled():  # a derivative of this one is wanted
            scores = ctx.formula(query, key, vector)
            wanted = [one for one in (query, key, vector) if one.requires_grad]
            found = iter(torch.autograd.grad(scores, wanted, given, create_graph=True))
            return tuple(next(found) if one.requires_grad else None for one in (query, key, vector))
        sides = Sides(query_side, key_side, ctx.exponential)
        given = given.contiguous()
        run = loop("additive", "backward", query.dtype)
        if run:
            x, y, v = padded(query_side), padded(key_side), padded(vector)
            into = torch.empty_like(x), torch.empty_like(y), torch.zeros_like(v)
            sizes = *x.shape[:2], *y.shape[1:], torch.get_num_threads(), sides.exponential
            run(*sizes, *map(Tensor.data_ptr, (x, y, v, given, *into)))
            into_query, into_key, into_vector = (one[..., : len(vector)] for one in into)
        else:
            into_query, into_key, into_vector = map(torch.zeros_like, (query_side, key_side, vector))
            _backward_blocks(sides, given.view(-1, *given.shape[-2:]), into_query, into_key, into_vector)
            slope = 4 * vector
            into_query.mul_(slope), into_key.mul_(slope)
        return into_query.view(query.shape), into_key.view(key.shape), into_vector.mul_(2).sub_(given.sum())


def _backward_blocks(sides: Sides, given: Tensor, into_query: Tensor, into_key: Tensor, into_vector: Tensor) -> None:
    """Sums of g r (1 − r) over keys and over queries, and of g r over both, for r = σ(2 (a + b))."""
    # Products with the vectors g would save a pass; as torch has them, they take longer than the pass and the sum.
    held = sides.query.new_empty(0)
    for (items, rows, columns), ratio in _blocks(sides, _BLOCK // 2):
        if held.numel() < ratio.numel():
            held = torch.empty_like(ratio).flatten()
        part = torch.mul(ratio, given[items, rows, columns].unsqueeze(-1), out=held[: ratio.numel()].view(ratio.shape))
        into_vector += part.sum(2).sum((0, 1))
        part.addcmul_(part, ratio, value=-1)
        into_query[items, rows] += part.sum(2)
        into_key[items, columns] += part.sum(1)


def _blocks(sides: Sides, size: int) -> Iterator[tuple[tuple[slice, slice, slice], Tensor]]:
    """Where a block of pairs lies (items, queries, keys), and `σ(2 (a + b))` of it; the next block overwrites it."""
    (items, queries, hidden), keys = sides.query.shape, sides.key.shape[1]
    columns = min(keys, max(1, size // hidden))
    rows = min(queries, max(1, size // (columns * hidden)))
    several = max(1, size // (rows * columns * hidden)) if rows == queries and columns == keys else 1
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


def sides_of(query: Tensor, key: Tensor, prepared: bool) -> Sides:
    """What the pairs of these queries and keys are made from; see the head of this file."""
    reach, cut = _REACH[query.dtype]
    narrow = (_kept_of if prepared else _narrow)(key, reach)
    if narrow is not None:
        return Sides(_exponential(query, cut)[0], narrow, True)
    query, key = query.reshape(-1, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:])
    narrow = _narrow(query, reach)
    if narrow is not None:
        return Sides(narrow, _exponential(key, cut)[0], True)
    for here, there, swapped in ((key, query, False), (query, key, True)):
        middle = (here.amax(-2, keepdim=True) + here.amin(-2, keepdim=True)) / 2
        narrow = _narrow(here - middle, reach)
        if narrow is not None:
            other = _exponential(there + middle, cut)[0]
            return Sides(narrow, other, True) if swapped else Sides(other, narrow, True)
    return Sides(query.contiguous(), key.contiguous(), False)  # not doubled: the largest numbers may yet cancel


def _narrow(side: Tensor, reach: float) -> Tensor | None:
    """The exponentials of a side if it is narrow."""
    made, largest = _exponential(side, reach)
    return made if largest <= reach else None  # a NaN is not at most anything


def _kept_of(key: Tensor, reach: float) -> Tensor | None:
    """`_narrow` of keys, made once while they live."""
    if key.is_inference():  # such a tensor does not count its changes
        return _narrow(key, reach)
    kept = _kept.get(key)
    if kept is None or kept.version != key._version:
        kept = _Kept(key._version, _narrow(key, reach))
        _kept[key] = kept
    return kept.key


def _exponential(side: Tensor, cut: float) -> tuple[Tensor, float]:
    """`e^(−2x)` of a side, `(items, positions, hidden)`, cut off at ±cut; and the largest |x|, NaN where one is."""
    side = side.reshape(-1, *side.shape[-2:])
    run = loop("additive", "side", side.dtype)
    if run:
        side = side.contiguous()
        made = torch.empty_like(side)
        return made, run(side.numel(), torch.get_num_threads(), cut, side.data_ptr(), made.data_ptr())
    return side.clamp(-cut, cut).mul_(-2).exp_(), float(torch.linalg.vector_norm(side, torch.inf))


# --- the compiled loops ---------------------------------------------------------------------------------------------

_SIDES = [ctypes.c_int64] * 5 + [ctypes.c_bool] + [ctypes.c_void_p] * 3


def loop(name: str, way: str, dtype: torch.dtype) -> Callable[..., Any] | None:
    """A loop of a library for numbers of a type, None where there's none; tensors are given by their addresses."""
    library = compiler.library(name)
    return None if library is None else _typed(library, f"{name}_{way}", dtype)


@functools.cache
def _typed(library: ctypes.CDLL, name: str, dtype: torch.dtype) -> Callable[..., Any]:
    run = getattr(library, f"{name}_{str(dtype).removeprefix('torch.')}")
    number = ctypes.c_float if dtype == torch.float32 else ctypes.c_double
    run.argtypes = {
        "additive_side": [ctypes.c_int64, ctypes.c_int64, number, ctypes.c_void_p, ctypes.c_void_p],
        "additive_forward": [*_SIDES, ctypes.c_void_p],
        "additive_backward": [*_SIDES, *[ctypes.c_void_p] * 4],
    }[name]
    run.restype = number if name == "additive_side" else None
    return run


def padded(rows: Tensor) -> Tensor:
    """Rows of whole vectors, as wide as any processor's: 0 behind their end."""
    more = -rows.shape[-1] % (64 // rows.element_size())
    return F.pad(rows, (0, more)) if more else rows.contiguous()
