"""What the scaling study measures: calls of attend by kind and size, and what one would write instead."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import regard
from regard import masks

WINDOW, RADIUS, HIDDEN = 128, 10, 64


class Size(NamedTuple):
    batch: int
    heads: int
    length: int
    width: int


class Made(NamedTuple):
    """One call at one size.

    Attributes:
        ours: the call of regard.
        rival: the same by torch's own operations, all weights at once.
        inputs: what gradients are asked of.
        explained: what regard says of its call, with costs.
        divisions: one a pair and hidden unit of an additive score. A loop that approximates reciprocals and mends them
            may be faster than the machine divides: above 100 percent of that limit.
    """

    ours: Callable[[], Tensor]
    rival: Callable[[], Tensor]
    inputs: list[Tensor]
    explained: Any
    divisions: int


class Kind(NamedTuple):
    """A kind of call.

    Attributes:
        make: the call at a size.
        slope: of the time of ours over the length on a log-log plot, in theory.
        memory: of its memory.
        beyond: what the rival's memory is proportional to for each pair of a query and a key, in bytes.
    """

    make: Callable[[Size], Made]
    slope: int
    memory: int
    beyond: int


def sides(size: Size, heads: bool = True) -> list[Tensor]:
    """Queries, keys and values."""
    torch.manual_seed(0)
    shape = (size.batch, size.heads, size.length, size.width) if heads else (size.batch, size.length, size.width)
    return [torch.randn(shape).requires_grad_() for _ in range(3)]


def weighed(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor:
    """Softmax of scaled dot products as one writes it."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ value


def later(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def dot(mask: Any, hidden: Callable[[int], Tensor | None]) -> Callable[[Size], Made]:
    def make(size: Size) -> Made:
        query, key, value = three = sides(size)
        return Made(
            lambda: regard.attend(query, key, value, mask=mask).context,
            lambda: weighed(query, key, value, hidden(size.length)),
            three,
            regard.explain(query, key, value, mask=mask, cost=True),
            0,
        )

    return make


def outside(length: int) -> Tensor:
    offset = torch.arange(length)[:, None] - torch.arange(length)
    return (offset < 0) | (offset > WINDOW)


def additive(size: Size) -> Made:
    query, key, value = three = sides(size, heads=False)
    score = regard.score("additive", query_dim=size.width, key_dim=size.width, hidden_dim=HIDDEN)

    def rival() -> Tensor:
        asked, held = query @ score.query_weight.T, key @ score.key_weight.T
        return (torch.tanh(asked.unsqueeze(2) + held.unsqueeze(1)) @ score.vector).softmax(-1) @ value

    return Made(
        lambda: regard.attend(query, key, value, score=score).context,
        rival,
        [*three, *score.parameters()],
        regard.explain(query, key, value, score=score, cost=True),
        size.batch * size.length**2 * HIDDEN,
    )


def linear(size: Size) -> Made:
    query, key, value = three = sides(size)
    options: dict[str, Any] = {"score": "linear", "normalizer": "sum", "mask": masks.causal()}

    def rival() -> Tensor:
        weights = (nn.functional.elu(query) + 1) @ (nn.functional.elu(key) + 1).mT
        weights = weights.masked_fill(later(size.length), 0.0)
        return weights / weights.sum(-1, keepdim=True) @ value

    return Made(
        lambda: regard.attend(query, key, value, **options).context,
        rival,
        three,
        regard.explain(query, key, value, cost=True, **options),
        0,
    )


def local(size: Size) -> Made:
    query, key, value = three = sides(size, heads=False)
    module = regard.LocalAttention("scaled_dot", RADIUS, "predictive", query_dim=size.width)
    lengths = torch.full((size.batch,), size.length)

    def rival() -> Tensor:
        center = size.length * torch.sigmoid(module.focus.vector(torch.tanh(module.focus.hidden(query))))
        far = torch.arange(size.length) - center
        scores = query @ key.mT / math.sqrt(size.width)
        weights = scores.masked_fill(far.abs() > RADIUS, -torch.inf).softmax(-1)
        return (weights * torch.exp(-2 * (far / RADIUS) ** 2)) @ value

    explained = regard.explain(query, key, value, cost=True)
    # A query meets the keys of its window alone; scores and the read are products of one width.
    pairs = size.batch * size.length * min(size.length, 2 * RADIUS + 1)
    near = replace(
        explained.cost,
        operations=4 * pairs * size.width,
        operations_with_gradients=14 * pairs * size.width,
        bytes=4 * value.numel(),
        bytes_with_gradients=5 * 4 * value.numel(),
    )
    explained = replace(explained, path="local", cost=near)
    return Made(
        lambda: module(query, key, value, lengths=lengths).context,
        rival,
        [*three, *module.parameters()],
        explained,
        0,
    )


KINDS = {
    "dot": Kind(dot(None, lambda length: None), 2, 1, 12),
    "causal": Kind(dot(masks.causal(), later), 2, 1, 14),
    "window": Kind(dot(masks.window(WINDOW, 0), outside), 1, 1, 26),
    "linear causal": Kind(linear, 1, 1, 20),
    "additive": Kind(additive, 2, 1, 4 * 5 * HIDDEN),
    "local": Kind(local, 1, 1, 40),
}
