"""What can be checked of a call of attend without computing: shapes and types, with errors that show all of them."""

import torch
from torch import Tensor

from regard.attention.masks import Sizes
from regard.errors import ConfigError, ShapeError


def checked_dropout(dropout: float) -> float:
    if not 0.0 <= dropout <= 1.0:
        raise ConfigError(f"dropout is a probability between 0 and 1; it was {dropout}")
    return dropout


def checked_sizes(query: Tensor, key: Tensor, value: Tensor | None) -> Sizes:
    given = f"query {tuple(query.shape)}, key {tuple(key.shape)}"
    if value is not None:
        given = f"{given}, value {tuple(value.shape)}"  # torch.compile knows formatting, not adding, of such text
    tensors = [query, key] if value is None else [query, key, value]
    if query.ndim not in (3, 4) or any(tensor.ndim != query.ndim for tensor in tensors):
        raise ShapeError(
            "expected query, key and value all (batch, positions, dim) or all (batch, heads, positions, dim); "
            f"got {given}"
        )
    if any(tensor.shape[0] != query.shape[0] for tensor in tensors):
        raise ShapeError(f"query, key and value must have one batch size; got {given}")
    if value is not None and value.shape[:-1] != key.shape[:-1]:
        raise ShapeError(f"key and value must agree in all axes but the last: a value for each key; got {given}")
    if query.ndim == 4 and (key.shape[1] == 0 or query.shape[1] % key.shape[1] != 0):
        raise ShapeError(f"the number of key heads must divide the number of query heads; got {given}")
    kinds = {tensor.dtype for tensor in tensors}
    if not all(kind.is_floating_point for kind in kinds):
        raise ShapeError(f"query, key and value must be floating point; got {sorted(map(str, kinds))}")
    if len(kinds) > 1 and (torch.float64 in kinds or not torch.is_autocast_enabled(query.device.type)):
        raise ShapeError(
            "query, key and value must have one dtype (outside autocast, which never changes float64); "
            f"got {sorted(map(str, kinds))}"
        )
    heads = query.shape[1] if query.ndim == 4 else 1
    return Sizes(query.shape[0], heads, query.shape[-2], key.shape[-2])


def checked_bias(bias: Tensor | None, sizes: Sizes, axes: int) -> Tensor | None:
    """The bias with as many axes as the scores: (queries, keys), (batch, queries, keys) or with heads, 1 = for all."""
    if bias is None:
        return None
    batch, heads, queries, keys = sizes
    if not bias.is_floating_point():
        raise ShapeError(
            f"bias= is added to the scores and must be floating point; it is {bias.dtype}. For a mask use mask="
        )
    allowed = {2: (queries, keys), 3: (batch, queries, keys), 4: (batch, heads, queries, keys)}
    wanted = allowed.get(bias.ndim)
    if (
        wanted is None
        or bias.ndim > axes
        or any(have not in (1, want) for have, want in zip(bias.shape, wanted, strict=True))
    ):
        raise ShapeError(
            f"bias has shape {tuple(bias.shape)}; expected one of {[allowed[n] for n in range(2, axes + 1)]}"
        )
    if bias.ndim == 2:
        return bias.reshape((1,) * (axes - 2) + tuple(bias.shape))
    return bias.unsqueeze(1) if bias.ndim < axes else bias
