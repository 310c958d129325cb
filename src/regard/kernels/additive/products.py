"""Additive scores of moderate numbers by matrix products of torch's own, several hidden units to a division.

tanh(a + b) of one hidden unit is (z − 1) / (z + 1), where z = e^2a e^2b. Over a common denominator `Σ v tanh` of three
units is a quotient of two sums of the eight products of some of their z; each of these is a number of the query times
one of the key, so that numerators and denominators of all pairs are two matrix products of inner size 8. Backwards
1/cosh² and tanh of two units are such quotients over h₁ h₂, where h = 2 cosh² = 1 + z/2 + 1/(2 z): a sum of nine
products; and what comes back to queries and keys are sums over pairs, matrix products too. Whatever is divided by is a
sum of positive numbers, so nothing cancels in it: errors stay some units in the last place of `Σ|v|`, or of what a
gradient sums up.

No power may overflow: see `serves`. What is larger is left to `additive.py`.

The hundreds of calls of torch's are made in inference mode, where each gets going some tenths of a microsecond sooner.
What is handed out is made outside of it, a tensor like any other.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.additive.blocks import even
from regard.kernels.native.huge_pages import in_large_pages

_LEAST, _SIDE, _SIDE_BACKWARD = 2**15, 20, 48
"""Pairs, and queries or keys of an item forwards and backwards, from which on products are faster than pair by pair."""

_BLOCK, _UNITS, _POWERS = 2**17, 24, 2**19
"""Quotients of pairs, hidden units, and their powers that are held at once, about what a core's own cache holds."""

# Which of a group's three units are multiplied. What comes in one call of torch's stands side by side.
_FORWARD = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 1, 0), (1, 0, 1), (1, 1, 1))

# Exponents of the z of a group's two units. The first five leave one of them out: 1 / cosh² of the second is summed
# from rows 0, 2 and 3, and that of the first from rows 1, 2 and 4.
_BACKWARD = ((1, 0), (0, 1), (0, 0), (-1, 0), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_SINGLE = 5

# Forwards: how far up a or b may go, and both together: e^(3 · 28), which a denominator reaches, overflows not even
# times three. Down they go as they please, for beside 1 what vanishes is nothing. Backwards: how far |a| + |b| may
# reach; e^(4 · 16) times a gradient near 1 is a normal number either way.
_TOP, _TOPS, _REACH_BACKWARD, _VECTOR = 12.0, 14.0, 16.0, (2.0**-80, 2.0**20)

_FAR = 24
"""Gradients whose largest number is further than so many powers of two from 1 are made as if they were near it."""


def has_many(items: int, queries: int, keys: int, backward: bool) -> bool:
    """Whether there are pairs enough to be faster so than pair by pair."""
    return min(queries, keys) >= (_SIDE_BACKWARD if backward else _SIDE) and items * queries * keys >= _LEAST


def operations(items: int, queries: int, keys: int, hidden: int) -> tuple[int, int]:
    """Of the matrix products, forwards and backwards, a multiply-add counted as 2."""
    pairs = items * queries * keys
    query, key = (torch.empty(items, length, hidden, device="meta") for length in (queries, keys))
    there, back, found = len(_FORWARD), len(_BACKWARD), []
    # Of a group: sums of products for each pair, and back over keys and over queries; and the vector's part. Of its
    # positions: they are turned, and so are what comes back to queries and, back again, all; and the vector sums up.
    for powers, units, sums, of_vector in ((there, 3, 2 * there, 3 * there), (back, 2, 2 * back + _SINGLE, 2 * back)):
        sides = _Sides(query, key, powers, units)
        of_queries, of_keys = queries * -(-keys // sides.columns), keys * -(-queries // sides.rows)
        of_positions = 0
        for chunk in sides.chunks():
            groups, width = chunk.stop - chunk.start, min(hidden, chunk.stop * units) - chunk.start * units
            transposed = (of_queries + of_keys) * groups * units * width
            of_positions += transposed
            if powers == back:
                of_positions += transposed + groups * (of_queries * _SINGLE**2 + of_keys * back)
        found.append(2 * (sides.groups * (sums * pairs + of_vector) + items * of_positions))
    return found[0], found[1]


def serves(query: Tensor, key: Tensor, vector: Tensor, backward: bool) -> bool:
    """Whether there are pairs enough to be faster so than pair by pair, and no power of such numbers overflows.

    Forwards the sides are looked at as they are gone through: see `scores`.

    Args:
        query: a, projected, `(…, queries, hidden)`.
        key: b, projected, `(…, keys, hidden)`.
        vector: v.
        backward: for the gradients, whose powers are twice as high, and inverted.
    """
    if not has_many(query.shape[:-2].numel(), query.shape[-2], key.shape[-2], backward):
        return False
    least, most = _VECTOR
    if not least <= _largest(vector) <= most:
        return False
    return not backward or _largest(query) + _largest(key) <= _REACH_BACKWARD


def _largest(side: Tensor) -> float:
    low, high = torch.aminmax(side)  # both NaN where one is
    return float(torch.maximum(-low, high))


def scores(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*lead queries keys"] | None:
    """`vᵀ tanh(a + b)` for each query a and key b; None where a power may overflow.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
    """
    sides, sets = _Sides(query, key, len(_FORWARD), 3), query.new_tensor(_FORWARD)
    size = 2.0 ** math.frexp(_largest(vector))[1]  # a small v would make numbers that are no normal ones
    factors = ((2 * sets - 1) @ sides.grouped(vector / size)).unsqueeze(-1)
    found = query.new_empty(sides.sizes)
    if not _scores(sides, factors, found):
        return None
    return found.mul_(size).view(*query.shape[:-1], key.shape[-2])


@torch.inference_mode()
def _scores(sides: "_Sides", factors: Tensor, found: Tensor) -> bool:
    """Fill what is found, and tell whether no power may overflow.

    Args:
        sides: of pairs.
        factors: of each power in a numerator, `(powers, groups, 1)`.
        found: `(items, queries, keys)`.
    """
    *tables_of, weighed, numerators, denominators, sums = sides.hold(*sides.room, sides.room[0], *[sides.quotients] * 3)
    held = numerators, denominators, sums

    @functools.lru_cache(maxsize=1)  # two would write over each other's ones
    def views(shape: tuple[int, ...], groups: int, width: int) -> tuple[Any, ...]:
        tables, several = sides.tables(tables_of, shape, groups), sides.several(shape)
        for one in tables:
            one[0] = 1
        above = _part(weighed, tables[0].shape)
        upper, lower, right = (_matrices(one, shape[0]).split(several) for one in (above, *tables))
        pairs = [_part(one, (several, *shape[1:])) for one in held]
        batches = [(a.mT, c.mT, b, *pairs) for a, c, b in zip(upper, lower, right, strict=True)]
        if (last := len(right[-1])) < several:
            batches[-1] = (*batches[-1][:3], *(one[:last] for one in pairs))
        parts = [(one[1:4].flatten(0, 1), *one[1:5].unbind(), one[2:5], one[5:]) for one in tables]
        return sides.doubling(groups, width), parts, tables[0], above, batches

    for some, rows, columns in sides.blocks():
        to = found[some, rows, columns]
        sums = _part(held[2], (sides.several(to.shape), *to.shape[1:])).zero_()
        transposed = sides.transposed(some, rows, columns)
        for chunk in sides.chunks():
            units = sides.of(chunk)
            doubling, parts, left, above, batches = views(to.shape, chunk.stop - chunk.start, units.stop - units.start)
            tops: list[float] = []
            for side, (single, first, second, third, both, others, with_first) in zip(transposed, parts, strict=True):
                tops.append(float(torch.mm(doubling, side[units], out=single).amax()))
                single.exp_()
                torch.mul(second, third, out=both)
                torch.mul(others, first, out=with_first)
            # Twice a and twice b. NaN, which a turned inf is, too, is not at most anything.
            if not (max(tops) <= 2 * _TOP and sum(tops) <= 2 * _TOPS):
                return False
            torch.mul(left, factors[:, chunk], out=above)
            for a, c, b, n, d, s in batches:
                torch.bmm(a, b, out=n)
                torch.bmm(c, b, out=d)
                s.addcdiv_(n, d)
        torch.sum(sums.view(-1, *to.shape), 0, out=to)
    return True


def gradients(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    vector: Float[Tensor, " hidden"],
    given: Float[Tensor, "*lead queries keys"],
) -> tuple[Float[Tensor, "*lead queries hidden"], Float[Tensor, "*lead keys hidden"], Float[Tensor, " hidden"]]:
    """What comes back to a, b and v, where `serves` takes them.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
        given: gradients of the scores.
    """
    far = math.frexp(_largest(given))[1]  # 0 of what is not finite
    if abs(far) > _FAR:
        here, there = (torch.tensor(power, device="cpu") for power in (-far, far))
        a, b, v = gradients(query, key, vector, torch.ldexp(given, here))
        return torch.ldexp(a, there), torch.ldexp(b, there), torch.ldexp(v, there)
    sides, exponents = _Sides(query, key, len(_BACKWARD), 2), query.new_tensor(_BACKWARD)
    into = [in_large_pages(side.new_empty(side.shape)) for side in sides.flat]
    into_vector = vector.new_zeros(len(exponents) * sides.groups)
    into_chunks = into_vector.split([len(exponents) * (chunk.stop - chunk.start) for chunk in sides.chunks()])
    _gradients(sides, vector, given.reshape(sides.sizes), into, into_chunks)
    by_powers = torch.cat([one.view(len(exponents), -1) for one in into_chunks], 1)
    return into[0].view(query.shape), into[1].view(key.shape), (exponents.T @ by_powers).T.flatten()[: len(vector)]


@torch.inference_mode()
def _gradients(
    sides: "_Sides", vector: Tensor, given: Tensor, into: list[Tensor], into_chunks: tuple[Tensor, ...]
) -> None:
    """Write what comes back to queries and keys, and add up what is to come back to the vector.

    Args:
        sides: of pairs.
        vector: v.
        given: gradients of the scores, `(items, queries, keys)`.
        into: what comes back, `(items, queries, hidden)` and `(items, keys, hidden)`.
        into_chunks: of each chunk's powers, `(powers · groups,)`, 0 before.
    """
    *tables_of, held_queries, held_keys, held_transposed, held = sides.hold(
        *sides.room * 2, sides.room[0], sides.quotients
    )
    # A half of every power on one side, for h has halves; and what divided by these gives the inverse powers.
    shifts, squares = given.new_tensor([[-math.log(2), 0], [0.25, 1]])
    same = torch.eye(_SINGLE, dtype=given.dtype, device=given.device)

    @functools.lru_cache(maxsize=1)  # two would write over each other's ones
    def views(shape: tuple[int, ...], groups: int, width: int) -> tuple[Any, ...]:
        tables, several = sides.tables(tables_of, shape, groups), sides.several(shape)
        left, right = (_matrices(one, shape[0]) for one in tables)
        to_queries, to_keys = _part(held_queries, (len(left), shape[1], _SINGLE)), _part(held_keys, right.shape)
        cut = (one.split(several) for one in (left, right, to_queries, to_keys))
        batches = []
        for a, b, to_query, to_key in zip(*cut, strict=True):
            ratio = _part(held, (len(a), *shape[1:]))
            batches.append((a, a.mT, b, b[:, :_SINGLE].mT, ratio, ratio.view(-1, *shape), to_query, to_key))
        parts = []
        for one in tables:
            one[2] = 1
            doubles = one[0:5:3].unsqueeze(1), one[1:5:3].unsqueeze(0), one[5:].unflatten(0, (2, 2))
            parts.append((one[:2].flatten(0, 1), one[:2], one[3:5], *doubles))
        left, right = tables
        # What comes back to queries and keys, by which their powers are multiplied, lies as these do; to queries it is
        # turned before, by a product again.
        transposed = to_queries.view(-1, _SINGLE).T, _part(held_transposed, (_SINGLE, left[0].numel()))
        to_left = transposed[1].view(_SINGLE, groups, -1)
        to_right = to_keys.view(groups, shape[0], len(right), -1).permute(2, 0, 1, 3)
        after = left[:2], left[3:5], to_left[:2], to_left[3:], to_left[2]
        rows, doubling = right.flatten(0, 1), sides.doubling(groups, width)
        right = right.view(len(right), groups, shape[0], -1)
        before = right[:2], to_right[:2], right[3:], to_right[3:], right[3:5], to_right[2]
        back = doubling.view(2, groups, width).flip(0).flatten(0, 1)
        products = [one[:2].view(len(back), -1).T for one in tables]
        return doubling, parts, batches, transposed, after, before, rows, back, products

    for some, rows, columns in sides.blocks():
        g = given[some, rows, columns]
        transposed = sides.transposed(some, rows, columns)
        places = [one[some, part].view(-1, len(vector)) for one, part in zip(into, (rows, columns), strict=True)]
        ones = g.new_ones(transposed[1].shape[1])
        for chunk, into_chunk in zip(sides.chunks(), into_chunks, strict=True):
            units = sides.of(chunk)
            found = views(g.shape, chunk.stop - chunk.start, units.stop - units.start)
            doubling, parts, batches, (as_found, as_powers), after, before, of_rows, back, products = found
            for side, shift, square, part in zip(transposed, shifts, squares, parts, strict=True):
                flat, powers, inverses, firsts, seconds, doubles = part
                torch.addmm(shift, doubling, side[units], out=flat).exp_()
                torch.div(square, powers, out=inverses)
                torch.mul(firsts, seconds, out=doubles)
            for a, transposed_a, b, single, ratio, pairs, to_query, to_key in batches:
                torch.bmm(transposed_a, b, out=ratio)
                torch.div(g, pairs, out=pairs)
                torch.bmm(ratio, single, out=to_query)
                torch.bmm(a, ratio, out=to_key)
            torch.mm(same, as_found, out=as_powers)
            # Each unit's sums are over powers without it; the rows of ones stay as they are.
            powers, inverses, of_powers, of_inverses, of_ones = after
            powers.mul_(of_powers).addcmul_(inverses, of_inverses).add_(of_ones)
            powers, of_powers, others, of_others, inverses, of_ones = before
            powers.mul_(of_powers)
            others.mul_(of_others)
            torch.addmv(into_chunk, of_rows, ones, out=into_chunk)
            powers.add_(inverses).add_(of_ones)
            # They are turned back by a product, too.
            weights = back * vector[units]
            for product, to, others in zip(products, places, (columns, rows), strict=True):
                there = to[:, units]
                if others.start:
                    torch.addmm(there, product, weights, out=there)
                else:
                    torch.mm(product, weights, out=there)


def _part(held: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The beginning of what is held, as a tensor of some shape."""
    return held[: math.prod(shape)].view(shape)


def _matrices(powers: Tensor, items: int) -> Tensor:
    """`(powers, groups, items · positions)` as matrices `(groups · items, powers, positions)`."""
    return powers.view(len(powers), powers.shape[1] * items, -1).transpose(0, 1)


class _Sides:
    """Queries and keys of several items, and the blocks in which their pairs and hidden units are gone through.

    Attributes:
        flat: `(items, queries, hidden)` and `(items, keys, hidden)`.
        sizes: items, queries and keys.
        groups: of hidden units.
        some, rows, columns: items, queries and keys of the largest block.
        quotients: of pairs of the largest block, of several groups.
        positions: queries or keys of the largest block.
        room: powers of the queries and of the keys of the largest block.
    """

    def __init__(self, query: Tensor, key: Tensor, powers: int, units: int) -> None:
        self.flat = query.reshape(-1, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:])
        items, queries, keys = self.sizes = self.flat[0].shape[0], query.shape[-2], key.shape[-2]
        self.powers, self.units, self.width = powers, units, query.shape[-1]
        self.groups = -(-self.width // units)
        self.columns = even(keys, max(_BLOCK // queries, math.isqrt(_BLOCK)))
        self.rows = even(queries, _BLOCK // self.columns)
        whole = (self.rows, self.columns) == (queries, keys)
        self._most = even(self.groups, _UNITS // units)
        most = min(_POWERS // (powers * self._most * (queries + keys)), _BLOCK // (queries * keys))
        self.some = even(items, most) if whole else 1
        self._count = max(1, min(self._most, _BLOCK // (self.some * self.rows * self.columns)))
        self.quotients = self._count * self.some * self.rows * self.columns
        self.positions = self.some * max(self.rows, self.columns)
        self.room = [powers * self._most * self.some * length for length in (self.rows, self.columns)]

    def blocks(self) -> Iterator[tuple[slice, slice, slice]]:
        """Of pairs: some items whole, or some queries and keys of one."""
        items, queries, keys = self.sizes
        for item in range(0, items, self.some):
            for row in range(0, queries, self.rows):
                for column in range(0, keys, self.columns):
                    rows, columns = slice(row, row + self.rows), slice(column, column + self.columns)
                    yield slice(item, item + self.some), rows, columns

    def chunks(self) -> list[slice]:
        """Groups of hidden units whose powers are held at once."""
        firsts = range(0, self.groups, self._most)
        return [slice(first, min(self.groups, first + self._most)) for first in firsts]

    def several(self, block: tuple[int, ...]) -> int:
        """How many of the pairs' matrices of a block are held at once: those of several groups, of each item."""
        return block[0] * self._count

    def hold(self, *sizes: int) -> tuple[Tensor, ...]:
        """Room for so many numbers each."""
        return in_large_pages(self.flat[0].new_empty(sum(sizes))).split(sizes)

    def tables(self, held: list[Tensor], block: tuple[int, ...], groups: int) -> list[Tensor]:
        """Room for powers, `(powers, groups, positions)`, of a block's queries and of its keys."""
        lengths = [block[0] * length for length in block[1:]]
        return [_part(one, (self.powers, groups, length)) for one, length in zip(held, lengths, strict=True)]

    def transposed(self, some: slice, rows: slice, columns: slice) -> list[Tensor]:
        """The queries and the keys of a block, `(hidden, positions)`."""
        sides = self.flat[0][some, rows], self.flat[1][some, columns]
        return [side.reshape(-1, side.shape[-1]).T for side in sides]

    def of(self, chunk: slice) -> slice:
        """The hidden units of some groups."""
        return slice(self.units * chunk.start, min(self.width, self.units * chunk.stop))

    def doubling(self, groups: int, width: int) -> Tensor:
        """What twice some units are when multiplied by it, `(units · groups, width)`, and 0 that the last group lacks.

        A product with a table that is mostly 0 turns positions to the end in less time than a copy does.
        """
        table = 2 * torch.eye(groups * self.units, width, dtype=self.flat[0].dtype, device=self.flat[0].device)
        return table.view(groups, self.units, width).transpose(0, 1).flatten(0, 1)

    def grouped(self, vector: Tensor) -> Tensor:
        """A number for each hidden unit as `(units, groups)`, 0 for those that the last groups lack."""
        return F.pad(vector, (0, self.units * self.groups - len(vector))).view(self.groups, self.units).T
