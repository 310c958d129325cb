"""How far two results may be apart that are the same sums in another order, and why.

Torch promises no bits where it multiplies matrices or adds up: the order depends on the processor, on the version, on
shapes, strides, the place in memory and the number of threads. Nor does it for `exp` and its like, whose last bit may
be another one in the rest behind the last whole vector. So equal bits are asked of one computation alone: of a native
loop of ours, whose order is its own, and of the same calls of torch with the same shapes, strides and threads.
Everything else is compared here.
"""

import math

import torch
from torch.testing import assert_close

DEVIATIONS = 6
"""Of a normal distribution, beyond which lies one number in five hundred million."""


def likely(terms: int, dtype: torch.dtype) -> float:
    """What two sums of so many terms may differ by, in parts of their largest partial sum.

    Each addition rounds its partial sum by at most u = eps / 2 of it. These errors are as good as independent and have
    mean 0, so that they add up to √n u and not to n u: Higham & Mary (2019), "A new approach to probabilistic rounding
    error analysis", SIAM J. Sci. Comput. 41(5), theorem 2.4. Two sums differ by √2 times as much.

    Args:
        terms: the additions on the longest way from the inputs to a number: sums behind one another count together.
        dtype: in which it is added up.
    """
    return DEVIATIONS * math.sqrt(2 * terms) * torch.finfo(dtype).eps / 2


def assert_close_to_rounding(found, expected, terms, size=None):
    """Compare tensors, or sequences of them, number by number.

    Args:
        found: one result.
        expected: the other.
        terms: see `likely`.
        size: how large partial sums may be; without it the largest number of each expected tensor, which partial sums
            of random signs, or of one sign, do not exceed by much.
    """
    if isinstance(expected, torch.Tensor):
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        finite = other.detach()[other.isfinite()].abs()
        largest = size if size is not None else finite.max().item() if finite.numel() else 0.0
        assert_close(one, other, rtol=0, atol=likely(terms, other.dtype) * largest, equal_nan=True)
