"""Projections whose gradients padding cannot turn to NaN.

The gradient of a projection's weight sums over all rows, and 0 · NaN is NaN: a row of padding that holds NaN would
make it NaN although no query attends to it. So such rows stay out of the projection and come out as NaN; `attend` does
the rest.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from regard.attention.attended import transformed
from regard.attention.call import guard
from regard.errors import ShapeError
from regard.kernels.autograd.plain import is_plain_tensor


def needs_guard(inputs: Iterable[Tensor], lasting: Iterable[Tensor] = ()) -> bool:
    """Whether an input holds NaN or inf, or cannot be read (a traced call); lasting ones serve at many calls."""
    tensors, others = list(inputs), list(lasting)
    traced = torch.compiler.is_compiling() or transformed()
    unreadable = traced or any(tensor.is_meta or not is_plain_tensor(tensor) for tensor in (*tensors, *others))
    return unreadable or not (guard.is_safe(*tensors) and guard.is_safe_cached(*others))


def project_each(make: Callable[[Tensor], Tensor], key: Tensor) -> Tensor:
    """What is made of each key; whether it is padding is not known here, so rows that are not finite stay out."""
    return project(make, key, needs_guard([key]))


def project(projection: Callable[[Tensor], Tensor], x: Tensor, guarded: bool) -> Tensor:
    """The projection of `(…, positions, width)`; guarded, rows that are not finite are left out and come out as NaN.

    Raises:
        ShapeError: another width than the projection takes.
    """
    if isinstance(projection, nn.Linear) and x.shape[-1] != projection.in_features:
        raise ShapeError(f"a projection takes width {projection.in_features}, but was given {tuple(x.shape)}")
    if not guarded:
        return projection(x)
    rows, nonfinite = guard.finite_rows(x)
    return guard.propagate_nan(projection(rows), nonfinite)
