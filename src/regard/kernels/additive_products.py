"""Additive scores of moderate numbers by matrix products of torch's own, several hidden units to a division.

tanh(a + b) of one hidden unit is (p − 1/p) / (p + 1/p), where p = eᵃ eᵇ. Over a common denominator `Σ v tanh` of three
units is a quotient of two sums of the eight p₁^±1 p₂^±1 p₃^±1; each of these is a number of the query times one of the
key, so that numerators and denominators of all pairs are two matrix products of inner size 8. Backwards 1/cosh² and
tanh of two units are such quotients over h₁ h₂, where h = 2 cosh² = 1 + p²/2 + p⁻²/2: a sum of nine products; and
what comes back to queries and keys are sums over pairs, matrix products too. Whatever is divided by is a sum of
positive numbers, so nothing cancels in it: errors stay some units in the last place of `Σ|v|`, or of what a gradient
sums up.

No power may overflow: see `serves`. What is larger is left to `additive.py`.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

_LEAST, _SIDE = 2**14, 16
"""Pairs, and queries or keys of an item, from which on products are faster than going pair by pair, measured."""

_BLOCK = 2**17
"""Pairs whose numerators and denominators are held at once: half a mebibyte of float32 each."""

_POWERS, _SEVERAL = 2**19, 16
"""Powers that are held at once, and the most groups of hidden units that these are of."""

# Exponents of the p of a group's units: of three units forwards, of two backwards. There the first ones leave a unit
# out, and 1 goes before them.
_FORWARD = ((1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1), (-1, 1, 1), (-1, 1, -1), (-1, -1, 1), (-1, -1, -1))
_BACKWARD = ((0, 0), (2, 0), (-2, 0), (0, 2), (0, -2), (2, 2), (2, -2), (-2, 2), (-2, -2))
_SINGLE = 5

# How far |a| + |b| may reach, added up over a group's units: e^60 times the vector's largest number overflows nowhere,
# and e^−30 times it is a normal number, as is the inverse of e^(2 · 32) times a gradient near 1.
_REACH, _REACH_BACK, _VECTOR = 60.0, 32.0, (2.0**-80, 2.0**20)

_FAR = 24
"""Gradients whose largest number is further than so many powers of two from 1 are made as if they were near it."""


def has_many(items: int, queries: int, keys: int) -> bool:
    """Whether there are pairs enough to be faster so than pair by pair."""
    return min(queries, keys) >= _SIDE and items * queries * keys >= _LEAST


def operations(items: int, queries: int, keys: int, hidden: int) -> tuple[int, int]:
    """Of the matrix products, forwards and backwards, a multiply-add counted as 2."""
    pairs, positions = items * queries * keys, items * (queries + keys)
    query, key = (torch.empty(items, length, hidden, device="meta") for length in (queries, keys))
    there, back = len(_FORWARD), len(_BACKWARD)
    found = []
    # Of a group of units: sums of products for each pair, there and back; what is made of positions; the vector's part.
    for powers, units, of_pair, of_position, of_group, of_unit in (
        (there, 3, 2 * there, there, 3 * there, 0),
        (back, 2, 2 * back + _SINGLE, 2 * _SINGLE - 1, 0, back),
    ):
        count = 0
        for some in _Sides(query, key, powers, units).chunks():
            width = some.stop - some.start
            groups = -(-width // units)
            count += 2 * groups * (of_pair * pairs + of_position * width * positions + of_group + of_unit * width)
        found.append(count)
    return found[0], found[1]


def serves(query: Tensor, key: Tensor, vector: Tensor, backward: bool) -> bool:
    """Whether no power of such numbers overflows, and there are pairs enough to be faster so than pair by pair.

    Args:
        query: a, projected, `(…, queries, hidden)`.
        key: b, projected, `(…, keys, hidden)`.
        vector: v.
        backward: for the gradients, whose powers are twice as high.
    """
    if not has_many(query.shape[:-2].numel(), query.shape[-2], key.shape[-2]):
        return False
    reach = _REACH_BACK / 2 if backward else _REACH / 3
    least, most = _VECTOR
    return least <= _largest(vector) <= most and _largest(query) + _largest(key) <= reach


def _largest(side: Tensor) -> float:
    low, high = torch.aminmax(side)  # both NaN where one is, which is not at most anything
    return float(torch.maximum(-low, high))


def scores(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(a + b)` for each query a and key b, where `serves` takes them.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
    """
    sides, exponents = _Sides(query, key, len(_FORWARD), 3), query.new_tensor(_FORWARD)
    factors = exponents @ F.pad(vector, (0, -len(vector) % 3)).view(-1, 3).T
    table, found, held = sides.spread(exponents), query.new_zeros(sides.sizes), query.new_empty(2, sides.largest)
    weighed = query.new_empty(len(exponents), sides.several, sides.positions[0])
    for units, powers in sides.groups():
        sides.combine(table, units, powers)
        of_queries, of_keys = powers.exp_().split(sides.positions, -1)
        first, count = units.start // 3, powers.shape[1]
        above = weighed[:, :count]
        torch.mul(of_queries, factors[:, first : first + count].unsqueeze(-1), out=above)
        upper, lower = (sides.of_items(one, 1).transpose(2, 3) for one in (above, of_queries))
        right = sides.of_items(of_keys, 2)
        for some, rows in sides.blocks():
            to = found[some, rows]
            numerators, denominators = (one[: to.numel()].view(to.shape) for one in held)
            cut = upper[:, some, rows], lower[:, some, rows], right[:, some]
            for a, c, b in zip(*(one.unbind() for one in cut), strict=True):
                torch.bmm(a, b, out=numerators)
                torch.bmm(c, b, out=denominators)
                to.addcdiv_(numerators, denominators)
    return found.view(*query.shape[:-1], key.shape[-2])


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
    items, queries, keys = sides.sizes
    given = given.reshape(sides.sizes)
    into, into_vector = [side.new_empty(side.shape) for side in sides.flat], vector.new_empty(vector.shape)
    table, signs = sides.spread(exponents[1:_SINGLE]), sides.spread(exponents.sign())
    others = sides.spread((exponents[:_SINGLE] == 0).to(query.dtype))  # a unit's gradient: sums over the other one's
    held = query.new_empty(sides.largest)
    held_queries = query.new_empty(sides.several, items, queries, _SINGLE)
    held_keys = query.new_empty(sides.several, items, len(exponents), keys)
    for units, powers in sides.groups():
        powers[0] = 1
        sides.combine(table, units, powers[1:_SINGLE])
        powers[1:_SINGLE].exp_()
        of_queries, of_keys = powers.split(sides.positions, -1)
        of_queries[1:_SINGLE].div_(2)
        torch.mul(powers[1:3].unsqueeze(1), powers[3:_SINGLE], out=powers[_SINGLE:].unflatten(0, (2, 2)))
        left, right = sides.of_items(of_queries, 1), sides.of_items(of_keys, 2)
        to_queries, to_keys = held_queries[: len(left)], held_keys[: len(left)].zero_()
        turned, single = left.transpose(2, 3), right[:, :, :_SINGLE].transpose(2, 3)
        for some, rows in sides.blocks():
            g = given[some, rows]
            ratio = held[: g.numel()].view(g.shape)
            of_rows = turned[:, some, rows], left[:, some, :, rows], to_queries[:, some, rows]
            cut = *of_rows, right[:, some], single[:, some], to_keys[:, some]
            for a, c, to_query, b, d, to_key in zip(*(one.unbind() for one in cut), strict=True):
                torch.div(g, torch.bmm(a, b, out=ratio), out=ratio)
                torch.bmm(ratio, d, out=to_query)
                to_key.baddbmm_(c, ratio)
        left[:, :, :_SINGLE].mul_(to_queries.transpose(2, 3))
        right.mul_(to_keys)
        back = sides.cut(others, units) * (2 * vector[units])
        for side, to in zip((of_queries, of_keys), into, strict=True):
            torch.mm(side[:_SINGLE].flatten(0, 1).T, back, out=to[:, units])
        torch.mv(sides.cut(signs, units).T, of_keys.sum(-1).flatten(), out=into_vector[units])
    return into[0].view(query.shape), into[1].view(key.shape), into_vector


class _Sides:
    """Queries and keys of several items, and the order in which they and their hidden units are gone through.

    Attributes:
        flat: `(items · queries, hidden)` and `(items · keys, hidden)`.
        sizes: items, queries and keys.
        positions: all queries, all keys.
        several: groups of hidden units whose powers are held at once.
        largest: pairs of the largest block.
    """

    def __init__(self, query: Tensor, key: Tensor, powers: int, units: int) -> None:
        self.flat = query.reshape(-1, query.shape[-1]), key.reshape(-1, key.shape[-1])
        items, queries, keys = self.sizes = query.shape[:-2].numel(), query.shape[-2], key.shape[-2]
        self.positions = [items * queries, items * keys]
        self.powers, self.units, self.width = powers, units, query.shape[-1]
        self.several = min(-(-self.width // units), _SEVERAL, max(1, _POWERS // (powers * sum(self.positions))))
        self.rows = max(1, min(queries, _BLOCK // keys))
        self.some = max(1, min(items, _BLOCK // (queries * keys))) if self.rows == queries else 1
        self.largest = self.some * self.rows * keys

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Of pairs: some items whole, or some queries of one."""
        items, queries, _ = self.sizes
        for item in range(0, items, self.some):
            for row in range(0, queries, self.rows):
                yield slice(item, item + self.some), slice(row, row + self.rows)

    def chunks(self) -> Iterator[slice]:
        """Hidden units whose powers are held at once."""
        for first in range(0, self.width, self.several * self.units):
            yield slice(first, min(self.width, first + self.several * self.units))

    def groups(self) -> Iterator[tuple[slice, Tensor]]:
        """Hidden units of some groups, and room for their powers, `(powers, groups, positions)`, used again."""
        held = self.flat[0].new_empty(self.powers * self.several * sum(self.positions))
        for units in self.chunks():
            shape = self.powers, self._count(units), sum(self.positions)
            yield units, held[: math.prod(shape)].view(shape)

    def _count(self, units: slice) -> int:
        return -(-(units.stop - units.start) // self.units)

    def spread(self, of_group: Tensor) -> Tensor:
        """A table `(powers, units)` for each group on its own: `(powers, groups, units of all groups)`, 0 elsewhere."""
        apart = torch.eye(self.several, dtype=of_group.dtype, device=of_group.device).unsqueeze(-1)
        return (of_group[:, None, None, :] * apart).flatten(2)

    def cut(self, table: Tensor, units: slice) -> Tensor:
        """The part of a spread table that these units want, as a matrix."""
        return table[:, : self._count(units), : units.stop - units.start].flatten(0, 1)

    def combine(self, table: Tensor, units: slice, to: Tensor) -> None:
        """Logarithms of powers, `(powers, groups, positions)`, of a table of exponents; a unit that a group lacks is 0.

        A product with a table that is mostly 0 turns positions to the end in less time than a copy does.
        """
        exponents = self.cut(table, units)
        for side, place in zip(self.flat, to.flatten(0, 1).split(self.positions, 1), strict=True):
            torch.mm(exponents, side[:, units].T, out=place)

    def of_items(self, powers: Tensor, side: int) -> Tensor:
        """`(powers, groups, items · positions)` of a side as matrices `(groups, items, powers, positions)`."""
        return powers.unflatten(-1, (self.sizes[0], self.sizes[side])).permute(1, 2, 0, 3)
