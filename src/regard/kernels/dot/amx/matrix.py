"""Products of large float32 matrices by the processor's matrix unit (AMX), where it has one: `matrix.cpp`.

Each number is the sum of three bfloat16, which the unit multiplies exactly and adds up in float32. Six of the nine
products of parts are made, the other three are below float32's precision: errors are half of those of torch's own
products, in less time. NaN and numbers above 2^40 are left to torch, and so is everything where there is no such unit.
Tiny numbers: what the unit loses is at most `2^-124 (|x| + |y| + 1)` of a product of x and y, and of a left side that
is multiplied by `GRADIENT` meanwhile less than float32's smallest number times |y|. These are products alone, without
gradients of their own.
"""

import ctypes
import functools

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.plain import is_readable
from regard.kernels.native import compiler

_LEAST, _SIDE = 2**27, 128
"""Multiplications, and rows, columns and depth, from which on the unit is faster, measured."""

GRADIENT = 2.0**24
"""The factor of gradients, which are far below 1: up to 2^16 they are still taken."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The built loop if this process may use a matrix unit, for which the first call asks the system."""
    library = compiler.library("dot/amx/matrix")
    if library is None:
        return None
    library.matrix_unit.restype = ctypes.c_bool
    if not library.matrix_unit():
        return None
    sizes, place = (ctypes.c_int64,) * 3, (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    last = ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p, ctypes.c_int64
    library.matrix_product.argtypes, library.matrix_product.restype = (*sizes, *place, *place, *last), ctypes.c_bool
    return library


def serves(left: Tensor, right: Tensor) -> bool:
    """Whether the unit takes a product: it is there, and the matrices are large, of float32 and on a CPU.

    Where a graph of gradients is wanted it takes none.
    """
    if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
        return False
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        return False  # torch says what does not fit; the loop looks at no shape
    rows, depth, columns = *left.shape, right.shape[1]
    if min(rows, depth, columns) < _SIDE or rows * depth * columns < _LEAST:
        return False
    alike = left.dtype is right.dtype is torch.float32 and left.is_cpu and right.is_cpu
    return alike and _is_dense(left) and _is_dense(right) and _library() is not None


def _is_dense(matrix: Tensor) -> bool:
    return _is_stored(matrix) and 1 in matrix.stride()


def _is_stored(tensor: Tensor) -> bool:
    mapped = torch._C._functorch.is_legacy_batchedtensor(tensor)  # many gradients at once
    return is_readable(tensor) and not mapped and not tensor.is_neg()


def _fits(tensor: Tensor, *shape: int) -> bool:
    """Whether it has this shape, and is numbers as the loop reads and writes them."""
    return tensor.shape == shape and tensor.dtype is torch.float32 and tensor.is_cpu and _is_stored(tensor)


def _adds(bias: Tensor, columns: int) -> bool:
    """Whether the loop may add it."""
    return _fits(bias, columns) and not (torch.is_grad_enabled() and bias.requires_grad)


def product(
    left: Float[Tensor, "rows depth"],
    right: Float[Tensor, "depth columns"],
    bias: Float[Tensor, " columns"] | None = None,
    *,
    factor: float = 1.0,
    out: Float[Tensor, "rows columns"] | None = None,
) -> Float[Tensor, "rows columns"]:
    """`left right + bias`.

    Args:
        left: any; what is no matrix at hand is left to torch.
        right: likewise.
        bias: added to each row.
        factor: a power of two, by which the left side's numbers are multiplied meanwhile.
        out: where it is to be written.
    """
    columns = right.shape[-1]
    room = out is None or (_fits(out, len(left), columns) and out.is_contiguous())
    if room and serves(left, right) and (bias is None or _adds(bias, columns)):
        found = left.new_empty(left.shape[0], right.shape[1]) if out is None else out
        library = _library()
        assert library is not None
        bias = None if bias is None else bias.contiguous()
        done: bool = library.matrix_product(
            *(left.shape[0], right.shape[1], left.shape[1]),
            *(left.data_ptr(), *left.stride()),
            *(right.data_ptr(), *right.stride()),
            *(None if bias is None else bias.data_ptr(), factor, found.data_ptr(), torch.get_num_threads()),
        )
        if done:
            return found
    return torch.mm(left, right, out=out) if bias is None else torch.addmm(bias, left, right, out=out)
