"""Vectors over their lengths: by two passes, or by the formula where some have no direction."""

import pytest
import torch

import regard
from regard.attention.parts.functional import unit


def vectors(dtype=torch.float64):
    return torch.randn(2, 3, 5, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()


def plainly(rows):
    return torch.stack([row / row.square().sum().sqrt() for row in rows.flatten(0, -2)]).view(rows.shape)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_value_and_gradient_are_the_definitions(dtype):
    rows, direction = vectors(dtype), vectors(dtype).detach()
    torch.testing.assert_close(unit(rows), plainly(rows))
    each = (torch.autograd.grad(make(rows), rows, direction)[0] for make in (unit, plainly))
    torch.testing.assert_close(*each)


def test_it_can_be_differentiated_twice():
    assert torch.autograd.gradcheck(unit, (vectors(),))
    assert torch.autograd.gradgradcheck(unit, (vectors(),))


def test_vectors_without_direction_and_very_long_ones():
    rows = vectors().detach()
    rows[0, 0], rows[0, 1], rows[1, 2] = 0.0, 1e-200, 1e200
    rows.requires_grad_()
    made = unit(rows)
    expected = torch.tensor([[0, 0, 1], [1, 1, 1]], dtype=torch.float64)
    torch.testing.assert_close(made.norm(dim=-1), expected)
    [slope] = torch.autograd.grad(made.sum(), rows)
    assert (slope[0, :2] == 0).all() and slope.isfinite().all()


def test_half_precision_is_widened():
    assert unit(vectors(torch.float32).detach().bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_query_that_is_no_vector_is_an_error(bad):
    """Not that it has no direction: its weights would then be those of a query of zeros."""
    query, key = torch.randn(2, 5, 3), torch.randn(2, 7, 3)
    query[1, 3, 2] = bad
    attended = regard.attend(query, key, key, score="cosine", refocus=lambda weights: weights)
    assert attended.context.isnan().all(-1).nonzero().tolist() == [[1, 3]]
    assert attended.weights.isnan().all(-1).nonzero().tolist() == [[1, 3]]
    assert attended.context.isnan().sum() == 3
