"""Linear attention chunk by chunk with torch's own calls: what a chunk makes stays in a cache, and is made again
backwards.

Within a chunk the scores are formed; what lies before it is read from running sums (Katharopoulos 2020, equations 9 to
15). The native loop of `linear.cpp` does the same.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 64
"""Positions whose scores are formed."""

_MOST = 2**17
"""Numbers of a chunk's features over all heads of some items: half a mebibyte of float32."""


class Call(NamedTuple):
    """One call, in one type of numbers.

    Attributes:
        query: (batch, heads, group, queries, width).
        key: (batch, heads, keys, width).
        value: (batch, heads, keys, value_dim).
        memory: the sums before the first key, (batch, heads, width, value_dim + 1), or None.
        keep: (batch, keys), True at real keys, or None.
        causal: the last query stands at the last key; otherwise every query reads every key.
        elu: φ is elu + 1; otherwise query and key are features already.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    memory: Tensor | None
    keep: Tensor | None
    causal: bool
    elu: bool

    def of(self, items: slice) -> "Call":
        """The call of some items."""
        return self._replace(
            query=self.query[items],
            key=self.key[items],
            value=self.value[items],
            memory=None if self.memory is None else self.memory[items],
            keep=None if self.keep is None else self.keep[items],
        )

    # Methods and no properties: torch 2.10 and older take no property of a tuple into a graph.

    def early(self) -> int:
        """Keys that are before every query."""
        queries, keys = self.query.shape[-2], self.key.shape[-2]
        return max(keys - queries, 0) if self.causal else keys

    def lone(self) -> int:
        """The first queries, which have no key at their position. All others but early ones are paired with keys."""
        queries, keys = self.query.shape[-2], self.key.shape[-2]
        return max(queries - keys, 0) if self.causal else queries


class Made(NamedTuple):
    """What a call gives: the context, what it was divided by, the sums after the last key, whether all was finite."""

    context: Tensor
    total: Tensor
    memory: Tensor
    finite: bool


def forward(call: Call) -> Made:
    """What all queries read."""
    shape = call.query.shape[:-1]
    context, total = call.query.new_empty(*shape, call.value.shape[-1]), call.query.new_empty(*shape, 1)
    after = call.key.new_empty(*call.key.shape[:2], call.key.shape[-1], call.value.shape[-1] + 1)
    finite = True
    for items in _some_items(call):
        one_pass = _Forwards(call.of(items), context[items], total[items])
        after[items] = one_pass.run().view_as(after[items])
        finite = finite and one_pass.finite()
    return Made(context, total, after, finite)


def backward(
    call: Call, context: Tensor, total: Tensor, given: Tensor, given_memory: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value and memory from those of the context and of the sums after the last key."""
    found = [one.new_empty(one.shape) for one in (call.query, call.key, call.value)]
    into_memory = call.key.new_empty(*call.key.shape[:2], call.key.shape[-1], call.value.shape[-1] + 1)
    for items in _some_items(call):
        grad = None if given_memory is None else given_memory[items]
        one_pass = _Backwards(call.of(items), context[items], total[items], given[items], grad)
        one_pass.to_queries(found[0][items])
        into_memory[items] = one_pass.to_keys(found[1][items], found[2][items]).view_as(into_memory[items])
    return found[0], found[1], found[2], into_memory


class _Pass:
    """The chunks of a call: features and values, heads and items as one axis, a group's queries one after another."""

    def __init__(self, call: Call) -> None:
        self.call, self.early, self.lone = call, call.early(), call.lone()
        self.finite_probe = call.query.new_zeros(())  # not finite once a query or key was not
        columns = call.value.shape[-1] + 1
        sums = call.key.new_zeros(*call.key.shape[:2], call.key.shape[-1], columns)
        if call.memory is not None:
            sums.copy_(call.memory)
        self.sums = sums.flatten(0, 1)
        self.values = call.value.new_ones(*call.value.shape[:2], CHUNK, columns)

    def finite(self) -> bool:
        # A value that is not finite shows in the sums, also beside a feature of 0.
        return bool(torch.isfinite(self.finite_probe) & torch.isfinite(self.sums).all())

    def queries(self, start: int, stop: int | None = None) -> Iterator[tuple[Tensor, slice]]:
        """Features (items · heads, group · size, width), and where they stand."""
        stop = self.call.query.shape[-2] if stop is None else stop
        for at in _chunks(start, stop):
            yield self.features_of_queries(at), at

    def features_of_queries(self, at: slice) -> Tensor:
        rows = self.call.query[..., at, :]
        self.finite_probe += rows.sum()
        return self._features(rows).flatten(2, 3).flatten(0, 1)

    def keys(self, start: int, stop: int | None = None) -> Iterator[tuple[Tensor, Tensor, slice]]:
        """Features (items · heads, size, width), values with a column of ones, 0 if masked out; and their places."""
        stop = self.call.key.shape[-2] if stop is None else stop
        for at in _chunks(start, stop):
            yield *self.features_of_keys(at), at

    def features_of_keys(self, at: slice) -> tuple[Tensor, Tensor]:
        rows, given = self.call.key[..., at, :], self.call.value[..., at, :]
        values = self.values[..., : rows.shape[-2], :]
        if self.call.keep is None:
            self.finite_probe += rows.sum()
            values[..., :-1] = given
            return self._features(rows).flatten(0, 1), values.flatten(0, 1)
        padding = ~self.call.keep[:, None, at, None]
        rows = rows.masked_fill(padding, 0.0)
        self.finite_probe += rows.sum()
        values[..., :-1] = given
        values[..., -1] = 1.0
        key_features = self._features(rows).masked_fill(padding, 0.0)
        return key_features.flatten(0, 1), values.masked_fill_(padding, 0.0).flatten(0, 1)

    def _features(self, rows: Tensor) -> Tensor:
        """Elu + 1 without a gradient of its own: 1 + x or eˣ, exactly."""
        return rows.clamp(max=0).exp_().add_(rows.clamp(min=0)) if self.call.elu else rows

    def lower(self, pairs: Tensor) -> Tensor:
        """Nothing above the diagonal, (items · heads, group · size, size): later keys are masked out."""
        size = pairs.shape[-1]
        pairs.view(pairs.shape[0], -1, size, size).tril_()
        return pairs

    def by_query(self, rows: Tensor) -> Tensor:
        """(items · heads, group · size, width) -> (items, heads, group, size, width)."""
        lead = self.call.query.shape[:3]
        return rows.view(*lead, rows.shape[1] // max(1, lead[2]), rows.shape[-1])


class _Forwards(_Pass):
    """The forward pass, which writes what the queries read."""

    def __init__(self, call: Call, context: Tensor, total: Tensor) -> None:
        super().__init__(call)
        self.context, self.total = context, total

    def run(self) -> Tensor:
        """Gives the sums after the last key."""
        for key_features, values, _ in self.keys(0, self.early):
            self.sums.baddbmm_(key_features.mT, values)
        for query_features, at in self.queries(0, self.lone):
            self.write(at, torch.bmm(query_features, self.sums))
        pairs = zip(self.keys(self.early), self.queries(self.lone), strict=True)
        for (key_features, values, _), (query_features, at) in pairs:
            read = torch.bmm(query_features, self.sums)
            self.write(at, read.baddbmm_(self.lower(torch.bmm(query_features, key_features.mT)), values))
            self.sums.baddbmm_(key_features.mT, values)
        return self.sums

    def write(self, at: slice, read: Tensor) -> None:
        read = self.by_query(read)
        total = read[..., -1:]
        self.total[..., at, :] = total
        torch.mul(read[..., :-1], _inverse(total), out=self.context[..., at, :])


class _Backwards(_Pass):
    """The backward pass: from the first position to the last for queries, then from the last to the first for keys."""

    def __init__(self, call: Call, context: Tensor, total: Tensor, given: Tensor, given_memory: Tensor | None) -> None:
        super().__init__(call)
        self.context, self.share, self.given, self.given_memory = context, _inverse(total), given, given_memory

    def given_of(self, at: slice) -> Tensor:
        """What numerator and denominator of the queries are given."""
        numerator = self.given[..., at, :] * self.share[..., at, :]
        denominator = (numerator * self.context[..., at, :]).sum(-1, keepdim=True).neg_()
        return torch.cat((numerator, denominator), -1).flatten(2, 3).flatten(0, 1)

    def through_feature_map(self, slope: Tensor, features: Tensor) -> Tensor:
        """Back through φ: the slope of elu + 1 is the feature or 1, the smaller one."""
        return slope.mul_(features.clamp(max=1)) if self.call.elu else slope

    def to_queries(self, into: Tensor) -> None:
        for key_features, values, _ in self.keys(0, self.early):
            self.sums.baddbmm_(key_features.mT, values)
        for query_features, at in self.queries(0, self.lone):
            into[..., at, :] = self.by_query(
                self.through_feature_map(torch.bmm(self.given_of(at), self.sums.mT), query_features)
            )
        pairs = zip(self.keys(self.early), self.queries(self.lone), strict=True)
        for (key_features, values, _), (query_features, at) in pairs:
            grad = self.given_of(at)
            slope = torch.bmm(grad, self.sums.mT)
            slope.baddbmm_(self.lower(torch.bmm(grad, values.mT)), key_features)
            into[..., at, :] = self.by_query(self.through_feature_map(slope, query_features))
            self.sums.baddbmm_(key_features.mT, values)

    def to_keys(self, into_key: Tensor, into_value: Tensor) -> Tensor:
        """Also gives what the sums before the first key are given."""
        call, sums = self.call, self.sums
        sums.zero_() if self.given_memory is None else sums.copy_(self.given_memory.flatten(0, 1))

        def write(at: slice, key_features: Tensor, to_key: Tensor, to_value: Tensor) -> None:
            into_key[..., at, :] = self.through_feature_map(to_key, key_features).view_as(into_key[..., at, :])
            into_value[..., at, :] = to_value.view_as(into_value[..., at, :])
            if call.keep is not None:
                into_key[..., at, :].masked_fill_(~call.keep[:, None, at, None], 0.0)

        shift = self.lone - self.early
        for at in reversed(list(_chunks(self.early, call.key.shape[-2]))):
            key_features, values = self.features_of_keys(at)
            of_queries = slice(at.start + shift, at.stop + shift)
            query_features, grad = self.features_of_queries(of_queries), self.given_of(of_queries)
            slopes, scores = (
                self.lower(torch.bmm(grad, values.mT)),
                self.lower(torch.bmm(query_features, key_features.mT)),
            )
            to_key = torch.bmm(values, sums.mT).baddbmm_(slopes.mT, query_features)
            to_value = torch.bmm(key_features, sums[..., :-1]).baddbmm_(scores.mT, grad[..., :-1])
            write(at, key_features, to_key, to_value)
            sums.baddbmm_(query_features.mT, grad)
        for query_features, at in self.queries(0, self.lone):
            sums.baddbmm_(query_features.mT, self.given_of(at))
        for key_features, values, at in self.keys(0, self.early):
            write(at, key_features, torch.bmm(values, sums.mT), torch.bmm(key_features, sums[..., :-1]))
        return sums


def _chunks(start: int, stop: int) -> Iterator[slice]:
    for first in range(start, stop, CHUNK):
        yield slice(first, min(first + CHUNK, stop))


def _some_items(call: Call) -> Iterator[slice]:
    """As many items at a time as stay in a cache."""
    batch, heads, group, _, width = call.query.shape
    most = max(1, _MOST // max(1, heads * group * CHUNK * width))
    for first in range(0, batch, most):
        yield slice(first, first + most)


def _inverse(total: Tensor) -> Tensor:
    """1 / total; 0 for a fully masked query, whose context is 0."""
    return torch.where(total != 0, 1 / total, 0.0)
