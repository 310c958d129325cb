"""Products of large matrices by the processor's matrix unit, beside float64; without one they are torch's own."""

import pytest
import torch
from torch.testing import assert_close

from regard.kernels.dot.amx import matrix
from regard.kernels.dot.amx.matrix import GRADIENT, product
from tests.rounding import assert_close_to_rounding

SIZES = ((523, 541, 547), (131, 1033, 1049), (1031, 137, 1039), (1097, 1063, 149), (128, 1024, 1024))


def sides(rows, depth, columns, seed=0):
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(rows, depth, generator=chance), torch.randn(depth, columns, generator=chance)


def errors(found, left, right, bias=0.0):
    """Root mean square, beside that of the numbers."""
    expected = left.double() @ right.double() + bias
    return ((found - expected).square().mean() / expected.square().mean()).sqrt().item()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("turned", ((False, False), (False, True), (True, False), (True, True)))
def test_products_are_as_exact_as_torchs(sizes, turned):
    left, right = (one.t().contiguous().t() if turn else one for one, turn in zip(sides(*sizes), turned, strict=True))
    assert errors(product(left, right), left, right) <= errors(left @ right, left, right) * 1.01


@pytest.mark.parametrize("sizes", SIZES)
def test_a_bias_is_added_to_each_row(sizes):
    left, right = sides(*sizes)
    bias = torch.randn(2 * sizes[2], generator=torch.Generator().manual_seed(1))[::2]
    found = product(left, right, bias)
    assert errors(found, left, right, bias.double()) <= errors(torch.addmm(bias, left, right), left, right, bias) * 1.01


def test_rows_may_lie_apart_and_the_answer_where_it_is_wanted():
    left, right = sides(523, 541, 547)
    wide, high = torch.full((523, 600), torch.nan), torch.full((600, 547), torch.nan)
    wide[:, :541], high[:541] = left, right
    out = torch.full((523, 547), torch.nan)
    assert product(wide[:, :541], high[:541], out=out) is out
    together = product(left, right)
    if matrix.serves(left, right):
        assert torch.equal(out, together)
    else:  # torch's own products of 541 numbers depend on where they lie
        assert_close_to_rounding(out, together, 541)


def test_what_does_not_fit_is_torchs_to_refuse():
    """The loop looks at no shape: it read beyond a right side that was too low, and beyond a bias of one number."""
    left, right = sides(523, 541, 547)
    assert not any(matrix.serves(left, wrong) for wrong in (right[:300], right[None], right[0]))
    assert not any(matrix._adds(torch.zeros(*wrong), 547) for wrong in ((1,), (546,), (1, 547), (523, 547)))
    assert not matrix._adds(torch.zeros(547, device="meta"), 547)


def test_a_bias_that_is_negated_or_learned_is_added_by_torch():
    left, right = sides(523, 541, 547)
    negated = torch._neg_view(torch.arange(547.0))
    assert_close(product(left, right, negated), left @ right - torch.arange(547.0), rtol=1e-4, atol=1e-4)
    assert product(left, right, torch.zeros(547, requires_grad=True)).grad_fn is not None


def test_the_answer_is_written_as_it_lies():
    left, right = sides(523, 541, 547)
    turned = torch.full((547, 523), torch.nan).t()
    assert product(left, right, out=turned) is turned
    assert_close(turned, left @ right, rtol=1e-4, atol=1e-4)
    assert not matrix._fits(torch.empty(523, 547, dtype=torch.float64), 523, 547)


@pytest.mark.parametrize("sizes", ((523, 541, 547), (1031, 137, 1039), (149, 1063, 1097)))
def test_several_threads_make_the_same_numbers(sizes):
    left, right = sides(*sizes)
    if not matrix.serves(left, right):
        pytest.skip("this processor has no matrix unit")
    bias, before = torch.arange(sizes[2]).float(), torch.get_num_threads()
    alone = product(left, right, bias)
    try:
        torch.set_num_threads(3)
        assert torch.equal(product(left, right, bias), alone)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("number", (torch.nan, torch.inf, -torch.inf, 3e38, -1e20))
@pytest.mark.parametrize("side", (0, 1))
def test_numbers_that_no_part_holds_are_torchs(side, number):
    given = sides(523, 541, 547)
    given[side][417, 311] = number
    assert_close(product(*given), given[0] @ given[1], rtol=0, atol=0, equal_nan=True)
    assert product(*given).isfinite().float().mean() > 0.99


@pytest.mark.parametrize("scale", (1e-8, 1e-14, 1e-20, 1e-28))
def test_tiny_numbers_keep_their_digits(scale):
    left, right = sides(523, 541, 547)
    found = product(left * scale, right) / scale
    assert_close(found, (left.double() @ right.double()).float(), rtol=1e-5, atol=1e-4)
    assert errors(found, left, right) < 4e-7


@pytest.mark.parametrize("scale", (1e-30, 1e-35))
def test_tiny_gradients_keep_their_digits(scale):
    left, right = sides(523, 541, 547)
    found = product(left * scale, right, factor=GRADIENT)
    assert errors(found.double() / scale, left, right) < 4e-7


def test_a_tiny_number_is_not_lost_beside_a_large_one():
    left, right = torch.zeros(523, 541), torch.ones(541, 547)
    left[:, 0], left[:, 1], right[0] = 1e9, 1e-20, 0
    assert_close(product(left, right), torch.full((523, 547), 1e-20), rtol=1e-6, atol=0)


def test_zeros_give_zeros():
    assert not product(torch.zeros(523, 541), torch.zeros(541, 547), factor=GRADIENT).any()


def test_where_a_graph_is_wanted_it_is_torchs():
    left, right = (one.requires_grad_() for one in sides(523, 541, 547))
    assert not matrix.serves(left, right)
    (slope,) = torch.autograd.grad(product(left, right).sum(), left)
    assert_close(slope, right.detach().sum(1).expand(523, 541), rtol=1e-5, atol=1e-4)
    with torch.no_grad():
        assert not product(left, right).requires_grad


@pytest.mark.parametrize("sizes", ((0, 541, 547), (523, 0, 547), (523, 541, 0), (1, 541, 547), (31, 37, 41)))
def test_small_ones_are_torchs(sizes):
    left, right = sides(*sizes)
    bias = torch.ones(sizes[2])
    assert not matrix.serves(left, right)
    assert torch.equal(product(left, right, bias), torch.addmm(bias, left, right))


def test_what_it_cannot_read_is_torchs():
    left, right = sides(523, 541, 547)
    turned = torch.complex(left, left).conj().imag
    assert turned.is_neg()
    assert torch.equal(product(turned, right), turned @ right)
    strided = sides(1046, 1082, 547)[0][::2, ::2]
    assert torch.equal(product(strided, right), strided @ right)
    assert product(left.double(), right.double()).dtype is torch.float64
    assert product(left.to("meta"), right.to("meta")).shape == (523, 547)
