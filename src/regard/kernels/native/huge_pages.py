"""Memory in large pages, where the system has them: tens of thousands of small ones take long to come."""

import ctypes
import functools
import mmap
from typing import Any

from torch import Tensor

_LEAST = 2**22  # bytes from which on it is faster


def in_large_pages(fresh: Tensor) -> Tensor:
    """The tensor, whose memory nobody has touched yet; a wish, which changes no number.

    Args:
        fresh: contiguous.
    """
    if fresh.is_cpu and fresh.nbytes >= _LEAST and (advise := _advise()) is not None:
        page = mmap.PAGESIZE
        first = -(-fresh.data_ptr() // page) * page
        advise(first, (fresh.data_ptr() + fresh.nbytes - first) // page * page, mmap.MADV_HUGEPAGE)
    return fresh


@functools.cache
def _advise() -> Any:
    """The system's call, None where it has none."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return advise
