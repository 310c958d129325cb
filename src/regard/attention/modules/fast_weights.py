"""Fast weights: a memory that is a matrix of connections, written by outer products and read by a product.

Schmidhuber 1992, "Learning to Control Fast-Weight Memories", Neural Computation 4(1): one network writes the weights of
another while it runs. With keys and queries as features φ this is linear attention (Schlag, Irie & Schmidhuber 2021,
"Linear Transformers Are Secretly Fast Weight Programmers", arXiv 2102.11174); `linear_attention` is its fast path.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class FastWeights(NamedTuple):
    """The memory: a pytree, batch first.

    Attributes:
        weight: W, from keys to values.
        total: the sum of the keys, by which a read may be divided.
    """

    weight: Float[Tensor, "batch value_dim key_dim"]
    total: Float[Tensor, "batch key_dim"]


def empty(
    batch: int,
    key_dim: int,
    value_dim: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> FastWeights:
    """A memory without any connection."""
    weight = torch.zeros(batch, value_dim, key_dim, dtype=dtype, device=device)
    return FastWeights(weight, weight.new_zeros(batch, key_dim))


def write(
    memory: FastWeights,
    key: Float[Tensor, "batch key_dim"],
    value: Float[Tensor, "batch value_dim"],
    strength: float | Float[Tensor, " batch"] = 1.0,
) -> FastWeights:
    """`W + β v kᵀ`: what fires together is wired together. The given memory is not changed.

    Args:
        memory: before.
        key: k; of linear attention φ(k).
        value: v.
        strength: β.
    """
    key = key * _column(strength, key)
    return FastWeights(memory.weight + value.unsqueeze(-1) * key.unsqueeze(-2), memory.total + key)


def correct(
    memory: FastWeights,
    key: Float[Tensor, "batch key_dim"],
    value: Float[Tensor, "batch value_dim"],
    strength: float | Float[Tensor, " batch"] = 1.0,
) -> FastWeights:
    """`W + β (v − W k) kᵀ`, the delta rule: with a key of length 1 and β = 1 the new value takes the old one's place.

    Sums of keys mean nothing here, so such a memory is read without dividing.
    """
    return FastWeights(write(memory, key, value - read(memory, key), strength).weight, memory.total)


def read(
    memory: FastWeights, query: Float[Tensor, "batch key_dim"], normalized: bool = False
) -> Float[Tensor, "batch value_dim"]:
    """`W q`.

    Args:
        memory: not changed.
        query: q; of linear attention φ(q).
        normalized: divide by the sum of all k · q, as the normalizer "sum" does; a sum of 0 reads 0.
    """
    found = (memory.weight @ query.unsqueeze(-1)).squeeze(-1)
    if not normalized:
        return found
    total = (memory.total * query).sum(-1, keepdim=True)
    return torch.where(total != 0, found / torch.where(total != 0, total, 1.0), 0.0)


def _column(strength: float | Tensor, like: Tensor) -> float | Tensor:
    return strength.to(like.dtype).unsqueeze(-1) if isinstance(strength, Tensor) else strength
