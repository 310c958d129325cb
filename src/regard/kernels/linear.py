"""Attention whose scores are φ(q)·φ(k): sums over keys are kept instead of Tq × Tk (Katharopoulos 2020, section 3).

Features go in, already ≥ 0; memory and work grow with the length. The last column of every sum is the sum of the
features themselves: with a column of ones beside the values, numerator (equation 5) and denominator are one product.
"""

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK = 64


def read_all(
    query: Float[Tensor, "*lead queries features"],
    key: Float[Tensor, "*#lead keys features"],
    value: Float[Tensor, "*#lead keys value_dim"],
) -> Float[Tensor, "*lead queries value_dim"]:
    """Every query reads every key (equation 6); a query whose scores are all 0 reads 0."""
    return _divide(torch.matmul(query, summed(key, value)))


def summed(
    key: Float[Tensor, "*lead keys features"], value: Float[Tensor, "*lead keys value_dim"]
) -> Float[Tensor, "*lead features value_dim_and_one"]:
    """Σ φ(k) [v, 1]: all that a query needs of these keys."""
    return torch.matmul(key.transpose(-2, -1), _with_ones(value))


def read_past(
    query: Float[Tensor, "*lead positions features"],
    key: Float[Tensor, "*#lead positions features"],
    value: Float[Tensor, "*#lead positions value_dim"],
    memory: Float[Tensor, "*#lead features value_dim_and_one"] | None = None,
    chunk: int = CHUNK,
) -> tuple[Float[Tensor, "*lead positions value_dim"], Float[Tensor, "*lead2 features value_dim_and_one"]]:
    """Query i reads `memory` and keys 0 … i (equations 9–12 in chunks; one position is the recurrent form, 16–20).

    Within a chunk the scores are formed (chunk × chunk); what lies before it is read from the running sum.

    Args:
        query: features of the queries.
        key: features of the keys, at the same positions.
        value: what is read.
        memory: the running sum of earlier keys, as a former call returned it.
        chunk: positions a block; changes speed, not meaning.

    Returns:
        The context, and the memory after the last position.
    """
    length = query.shape[-2]
    if memory is None:
        memory = summed(key[..., :0, :], value[..., :0, :])
    value = _with_ones(value)
    query, key, value = (_chunks(tensor, chunk) for tensor in (query, key, value))
    added = torch.matmul(key.transpose(-2, -1), value)  # (…, chunks, features, value_dim + 1)
    # Sums that start from the memory and end before each chunk, then one more: never a later sum minus a chunk, which
    # would let what comes later touch the last digits.
    sums = torch.cat((memory.unsqueeze(-3), added), dim=-3).cumsum(-3)
    scores = torch.matmul(query, key.transpose(-2, -1)).tril()
    read = torch.matmul(query, sums[..., :-1, :, :]) + torch.matmul(scores, value)
    return _divide(read.flatten(-3, -2)[..., :length, :]), sums[..., -1, :, :]


def _with_ones(value: Tensor) -> Tensor:
    return torch.cat((value, torch.ones_like(value[..., :1])), dim=-1)


def _divide(read: Tensor) -> Tensor:
    total = read[..., -1:]
    return torch.where(total != 0, read[..., :-1] / torch.where(total != 0, total, 1.0), 0.0)


def _chunks(tensor: Tensor, chunk: int) -> Tensor:
    """(…, positions, width) -> (…, chunks, chunk, width), the last one filled up with zeros."""
    lacking = -tensor.shape[-2] % chunk
    return torch.nn.functional.pad(tensor, (0, 0, 0, lacking)).unflatten(-2, (-1, chunk))
