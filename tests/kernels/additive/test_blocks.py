"""Sums over pairs in blocks: their values, however the pairs are cut, and of the widest sides."""

import pytest
import torch

from regard.kernels.additive import blocks as additive_blocks

SIZES = {"several items": (5, 1, 2), "an item": (2, 3, 5), "queries": (3, 7, 5), "keys": (2, 3, 11), "one": (1, 1, 1)}


@pytest.fixture(params=["products", "sums"])
def small(request, monkeypatch):
    """Blocks of 17 hidden units times 7 pairs; sums by products, or without any."""
    monkeypatch.setattr(additive_blocks, "BLOCK", 17 * 7)
    monkeypatch.setattr(additive_blocks, "_READY", 17 * 13)
    monkeypatch.setattr(additive_blocks, "_PRODUCT", 1 if request.param == "products" else 10**9)


def sides(items, queries, keys, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    shapes = (items, queries, 17), (items, keys, 17), (items, queries, keys), (17,)
    return [scale * torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def slope(dtype=torch.float64):
    return torch.linspace(-1, 2, 17, dtype=dtype)


def plain(query, key, given):
    ratio = torch.sigmoid(2 * (query.unsqueeze(2) + key.unsqueeze(1)).double())
    both = given.double().unsqueeze(-1) * ratio
    part = both * (1 - ratio) * slope()
    return ratio, part.sum(2), part.sum(1), both.sum((0, 1, 2))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("dtype", "bound"), ((torch.float64, 1e-14), (torch.float32, 3e-6)))
def test_sums_are_those_of_all_pairs(small, sizes, dtype, bound):
    query, key, given, vector = sides(*sizes, dtype)
    ratio, *sums = plain(query, key, given)
    found = additive_blocks.scores(query, key, vector, None)
    torch.testing.assert_close(found.double(), ratio @ vector.double(), rtol=bound, atol=bound)
    for ours, theirs in zip(additive_blocks.gradients(query, key, None, given, slope(dtype)), sums, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=bound, atol=bound)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_each_order_of_wide_sides(small, sizes):
    """One side beyond a narrow one's reach, both in part, both throughout: exponentials of one, or none."""
    query, key, given, _ = sides(*sizes)
    for of_query, of_key in ((300, 1), (1, 300), (300, 300), (160, 170)):
        a, b = of_query * query, of_key * key
        for ours, theirs in zip(
            additive_blocks.gradients(a, b, None, given, slope()), plain(a, b, given)[1:], strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    shifted = key + 1000  # narrow once its middle is gone
    found = additive_blocks.gradients(query - 1000, shifted, None, given, slope())
    for ours, theirs in zip(found, plain(query - 1000, shifted, given)[1:], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_a_nan_stays_with_its_query_and_the_keys_that_it_meets(small):
    query, key, given, vector = sides(3, 7, 5)
    query[1, 2, 3] = torch.nan
    found = additive_blocks.scores(query, key, vector, None)
    assert found.isnan().nonzero()[:, :2].unique(dim=0).tolist() == [[1, 2]]
    to_query, to_key, to_vector = additive_blocks.gradients(query, key, None, given, slope())
    assert to_query.isnan().nonzero().tolist() == [[1, 2, 3]]
    assert to_key.isnan().nonzero().tolist() == [[1, place, 3] for place in range(5)]
    assert to_vector.isnan().nonzero().tolist() == [[3]]


def test_what_is_found_is_a_tensor_like_any_other(small):
    """Though it is made in inference mode, it may be differentiated, and changed."""
    query, key, given, vector = (side.requires_grad_() for side in sides(2, 3, 5))
    with torch.no_grad():
        found = [
            additive_blocks.scores(query, key, vector, None),
            *additive_blocks.gradients(query, key, None, given, slope()),
        ]
    for one in found:
        assert not one.is_inference() and not one.requires_grad
        leaf = one.clone().requires_grad_()
        (leaf * one).sum().backward()
        assert torch.equal(leaf.grad, one)
        one.add_(1)
