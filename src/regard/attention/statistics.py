"""Statistics of weights: what an attention did, in numbers that grow with its length and not with its square."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ConfigError

_PART = 2**20
"""Weights that are made at once: 4 MiB of float32."""


class Statistics(NamedTuple):
    """Statistics of the weights of one call, in at least float32, without gradients.

    Attributes:
        entropy: of each query's weights, `−Σ w ln w`, in nats: 0 for all weight on one key, ln n for n equal weights.
        maximum: each query's largest weight.
        received: what each key gets from all queries together.
        top_weights: each query's largest weights, in descending order.
        top_keys: the keys that have them.
    """

    entropy: Float[Tensor, "*lead queries"]
    maximum: Float[Tensor, "*lead queries"]
    received: Float[Tensor, "*lead keys"]
    top_weights: Float[Tensor, "*lead queries top"]
    top_keys: Int[Tensor, "*lead queries top"]

    def largest(self, top: int) -> "Statistics":
        """The same statistics with fewer of the largest weights; `top` is from 0 to as many as were made.

        Raises:
            ConfigError: more than were made, or fewer than 0.
        """
        if not 0 <= top <= self.top_keys.shape[-1]:
            raise ConfigError(f"top= is from 0 to the {self.top_keys.shape[-1]} that were made; it was {top}")
        if top == self.top_keys.shape[-1]:
            return self
        return self._replace(top_weights=self.top_weights[..., :top], top_keys=self.top_keys[..., :top])


def statistics_of(weights: Callable[[slice], Tensor], shape: tuple[int, ...], top: int) -> Statistics:
    """The statistics of weights that are made for some queries at a time.

    Args:
        weights: makes those of a slice of the queries, `(*lead, some, keys)`.
        shape: of all of them, `(*lead, queries, keys)`.
        top: how many of each query's largest weights are wanted.
    """
    checked_top(top, shape[-1])
    rows, received = [], None
    with torch.no_grad():
        for part in _parts(shape):
            some = weights(part).detach()
            some = some.float() if some.dtype in (torch.float16, torch.bfloat16) else some
            sums = some.sum(-2)
            received = sums if received is None else received + sums
            rows.append((torch.special.entr(some).sum(-1), *_largest(some, top)))
    assert received is not None
    axis = len(shape) - 2
    entropy, maximum, top_weights, top_keys = (
        torch.cat(each, dim=axis) if len(each) > 1 else each[0] for each in zip(*rows, strict=True)
    )
    return Statistics(entropy, maximum, received, top_weights, top_keys)


def checked_top(top: int, keys: int) -> int:
    """How many of the largest weights are wanted.

    Raises:
        ConfigError: more than there are keys, or fewer than 0.
    """
    if not 0 <= top <= keys:
        raise ConfigError(f"top= counts each query's largest weights, from 0 to the {keys} keys; it was {top}")
    return top


def _parts(shape: tuple[int, ...]) -> Iterator[slice]:
    """The queries some at a time; at least one slice, if an empty one."""
    queries = shape[-2]
    step = max(1, _PART * queries // max(1, math.prod(shape)))
    yield from (slice(start, min(start + step, queries)) for start in range(0, max(1, queries), step))


def _largest(weights: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor]:
    if weights.shape[-1] == 0:
        return weights.sum(-1), weights, weights.long()
    values, keys = weights.topk(max(top, 1), dim=-1)
    return values[..., 0], values[..., :top], keys[..., :top]
