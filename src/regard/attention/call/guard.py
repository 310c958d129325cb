"""What is masked out cannot touch the answer or a gradient, not even as NaN or inf.

A weight of 0 is not enough: 0 × NaN is NaN, forwards in the read and backwards in the score. So rows that are not
finite, keys that no query may attend to and fully masked queries are replaced by 0 before anything is computed with
them (the gradient to them is then exactly 0), and the queries that attend to a row that is not finite get NaN, as plain
arithmetic would have given.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call.checks import are_plain_tensors
from regard.attention.parts.functional import wide
from regard.kernels.autograd.tensor_cache import TensorCache


class Guarded(NamedTuple):
    """Clean inputs, and which queries must read NaN, (batch, [heads,] queries)."""

    query: Tensor
    key: Tensor
    value: Tensor | None
    nonfinite: Bool[Tensor, "*lead queries"]


def is_safe(*tensors: Tensor | None) -> bool:
    """Whether all entries are finite and no dot product of their rows can overflow: one cheap pass over each.

    By Cauchy-Schwarz |q·k| ≤ |q| |k|, and a norm is finite only while its square is.
    """
    norms, checked = [], None
    for tensor in tensors:
        if tensor is None or tensor is checked:  # keys are often the values too
            continue
        checked = tensor
        norms.append(torch.linalg.vector_norm(wide(tensor.detach() if tensor.requires_grad else tensor)))
    if not norms[0].is_cpu:
        norms = [torch.stack(norms).sum()]  # reading a device's number waits for it: once
    return all(map(math.isfinite, norms))


def is_short(*tensors: Tensor | None) -> bool:
    """The same for what a score multiplies by its parameters in float16: no product with a row of norm 8 overflows."""
    norms = [torch.linalg.vector_norm(wide(one.detach())) for one in tensors if one is not None]
    return bool(torch.stack(norms).sum() < _SHORT)


_SHORT = 2**13


def is_safe_cached(*tensors: Tensor | None) -> bool:
    """`is_safe` for tensors that serve many calls, such as a decoder's keys: each is checked once.

    That holds as long as a tensor is alive and unchanged, as `TensorCache` knows it.
    """
    return all(
        _safe.get(tensor, is_safe) if are_plain_tensors(tensor) else is_safe(tensor)  # else its numbers lie elsewhere
        for tensor in tensors
        if tensor is not None
    )


_safe: TensorCache[bool] = TensorCache()


def finite_rows(
    rows: Float[Tensor, "*lead positions dim"],
) -> tuple[Float[Tensor, "*lead positions dim"], Bool[Tensor, "*lead positions"]]:
    """The rows with each that holds NaN or inf replaced by 0, and which were."""
    nonfinite = ~torch.isfinite(rows).all(-1)
    return torch.where(nonfinite[..., None], 0.0, rows), nonfinite


def guard(query: Tensor, key: Tensor, value: Tensor | None, keep: Tensor) -> Guarded:
    """Clean inputs for one call.

    Args:
        query: (batch, [heads,] queries, dim).
        key: (batch, [key_heads,] keys, dim).
        value: (batch, [key_heads,] keys, dim) or None.
        keep: the drawn mask, broadcastable to (batch, [heads,] queries, keys).
    """
    heads_share = 1
    if query.ndim == 4 and keep.shape[1] != 1:
        heads_share = query.shape[1] // key.shape[1]
    attended = keep.any(-2)  # (batch or 1, [heads or 1,] keys)
    if heads_share != 1:
        attended = attended.unflatten(1, (-1, heads_share)).any(2)
    key, nonfinite_key = finite_rows(key)
    if value is not None:
        value, nonfinite_value = finite_rows(value)
        nonfinite_key = nonfinite_key | nonfinite_value
        value = torch.where(attended[..., None], value, 0.0)
    key = torch.where(attended[..., None], key, 0.0)
    has_keys, nonfinite_query = keep.any(-1), ~torch.isfinite(query).all(-1)
    query = torch.where((has_keys & ~nonfinite_query)[..., None], query, 0.0)
    if query.ndim == 4 and query.shape[1] != key.shape[1]:
        nonfinite_key = nonfinite_key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    attends_nonfinite = (keep & nonfinite_key.unsqueeze(-2)).any(-1)
    return Guarded(query, key, value, attends_nonfinite | (nonfinite_query & has_keys))


def propagate_nan(tensor: Tensor, nonfinite: Tensor | None, keep: Tensor | None = None) -> Tensor:
    """Write NaN into the rows that must read it; where `keep` is given, only at keys that may be attended to."""
    if nonfinite is None:
        return tensor
    rows = nonfinite.unsqueeze(-1)
    return torch.where(rows if keep is None else rows & keep, torch.nan, tensor)
