"""float32 products of the native loop by the processor's matrix unit and by its vectors: the same, and as exact."""

import pytest
import torch

from regard.kernels.dot import dot, loops
from regard.kernels.dot.dot import attention, statistics
from tests.kernels.dot.dot_reference import ALL, CAUSAL, assert_same, formula, inputs
from tests.native import needs_compiler
from tests.rounding import likely

pytestmark = needs_compiler


def called(query, key, value, visible=ALL, bias=None, scale=0.3, dropout=0.0):
    return attention(query, key, value, visible=visible, bias=bias, scale=scale, dropout=dropout)


def all_of(call, given, visible=ALL, bias=None):
    """Context and gradients; what comes from above is always the same."""
    context = call(*given, visible, bias, 0.3)
    upstream = torch.randn(context.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = [one for one in (*given, bias) if one is not None]
    return [context, *torch.autograd.grad(context, wanted, upstream.to(context.dtype))]


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(4))


VISIBLE = {
    "all": ALL,
    "causal": CAUSAL._replace(offset=-2),
    "window": ALL._replace(window=(17, 5)),
    "few": ALL._replace(keep=torch.rand(2, 1, 97, 131, generator=torch.Generator().manual_seed(2)) > 0.98),
    "lengths": ALL._replace(lengths=[0, 67], query_lengths=[31, 89]),
}


@pytest.mark.parametrize("dims", ((13, 37), (64, 64), (33, 16)))
@pytest.mark.parametrize("visible", VISIBLE)
def test_vectors_make_the_same_products(visible, dims, monkeypatch):
    given, bias = inputs(2, 6, 2, 97, 131, *dims), drawn(1, 6, 97, 131).requires_grad_()
    by_unit = all_of(called, given, VISIBLE[visible], bias)
    monkeypatch.setattr(dot, "_MATRIX_UNIT", False)
    assert_same(by_unit, all_of(called, given, VISIBLE[visible], bias), 2e-6)


@pytest.mark.parametrize("visible", VISIBLE)
def test_vectors_make_the_same_products_over_many_keys(visible, monkeypatch):
    """Several blocks of keys, and in none of them a whole number of tiles."""
    seen = VISIBLE[visible]
    if seen.keep is not None:
        seen = seen._replace(keep=torch.rand(2, 1, 97, 811, generator=torch.Generator().manual_seed(3)) > 0.98)
    if seen.lengths is not None:
        seen = seen._replace(lengths=[0, 607])
    given, bias = inputs(2, 6, 2, 97, 811, 64, 64), drawn(1, 6, 97, 811).requires_grad_()
    by_unit = all_of(called, given, seen, bias)
    # A score is a sum of 64, and what is read with it one of 811, in as many parts as a vector has numbers.
    bound = likely(64 + 811, torch.float32)
    if seen.query_lengths is None:
        assert_same(by_unit, all_of(formula, given, seen, bias), bound)
    monkeypatch.setattr(dot, "_MATRIX_UNIT", False)
    assert_same(by_unit, all_of(called, given, seen, bias), bound)


def test_a_processor_that_has_the_unit_takes_it(monkeypatch):
    """Else each test here would compare vectors with vectors."""
    if not loops.of(torch.float32).library.number("dot_matrix_unit"):
        pytest.skip("the processor has no matrix unit, or the compiler cannot turn vectors over")
    given = inputs(1, 2, 2, 97, 131, 64, 64)
    by_unit = all_of(called, given)
    monkeypatch.setattr(dot, "_MATRIX_UNIT", False)
    assert not any(torch.equal(one, other) for one, other in zip(by_unit, all_of(called, given), strict=True))


def test_numbers_are_as_exact_as_vectors_have_them(monkeypatch):
    given = inputs(1, 2, 2, 211, 503, 64, 64)
    expected = all_of(formula, given)

    def errors():
        pairs = zip(all_of(called, given), expected, strict=True)
        return [((one.double() - other).square().mean() / other.square().mean()).sqrt().item() for one, other in pairs]

    by_unit = errors()
    monkeypatch.setattr(dot, "_MATRIX_UNIT", False)
    assert all(one <= other <= 1.2e-6 for one, other in zip(by_unit, errors(), strict=True))


@pytest.mark.parametrize("unit", (True, False))
@pytest.mark.parametrize("number", (1e-30, 1e-42, 1e17, -1e25))
@pytest.mark.parametrize("which", range(3))
def test_numbers_that_are_very_large_or_small(which, number, unit, monkeypatch):
    monkeypatch.setattr(dot, "_MATRIX_UNIT", unit)
    given = [one.detach() for one in inputs(1, 2, 2, 41, 67, 5, 3)]
    given[which][0, 1, 7, 2] = number
    given = [one.requires_grad_() for one in given]
    found, expected = called(*given), formula(*given, scale=0.3)
    assert_same([found], [expected], 2e-6)
    if abs(number) < 1:
        assert_same(all_of(called, given)[1:], all_of(formula, given)[1:], 2e-6)


def test_both_ways_find_the_same_scores_of_a_query_that_is_too_large():
    """Where they differ in the last digit, and scores are of 1e19, a weight would be infinite or none."""
    query, key, value = (one.detach() for one in inputs(1, 2, 2, 64, 97, 31, 17))
    query *= 1e20
    given = [one.requires_grad_() for one in (query, key, value)]
    chosen = torch.einsum("bhqd,bhkd->bhqk", query.double(), key.double()).argmax(-1)
    _, to_query, _, to_value = all_of(called, given)
    assert to_query.abs().max() < 1e-5  # of gradients near 1: each weight is 0 or 1, whose slope is 0
    seen = torch.zeros(1, 2, 97, dtype=torch.bool).scatter_(-1, chosen, True)
    assert to_value[seen].abs().sum(-1).all() and not to_value[~seen].any()
    assert_same([to_value], [all_of(formula, given)[3]], 2e-6)


def test_tiny_values_keep_their_digits():
    given = inputs(1, 2, 2, 41, 67, 5, 3)
    tiny = (given[2] * 1e-34).detach().requires_grad_()
    found, expected = called(*given[:2], tiny), formula(*given[:2], tiny, scale=0.3)
    assert_same([found * 1e34], [expected * 1e34], 2e-6)


@pytest.mark.parametrize("number", (torch.nan, torch.inf, -torch.inf, 3e38))
def test_a_query_that_is_not_finite_touches_no_other(number):
    query, key, value = (one.detach() for one in inputs(1, 2, 2, 41, 67, 5, 3))
    expected = called(query, key, value)
    query[0, 1, 7, 2] = number
    found = called(query, key, value)
    others = torch.ones(1, 2, 41, dtype=torch.bool)
    others[0, 1, 7] = False
    assert torch.equal(found[others], expected[others])
    if not abs(number) < torch.inf:
        assert found[0, 1, 7].isnan().all()
    entropy = statistics(query, key, visible=ALL, bias=None, scale=0.3, top=0)[0]
    assert entropy[others].isfinite().all()


@pytest.mark.parametrize("number", (torch.inf, -torch.inf))
def test_an_infinite_key_is_seen_or_not(number):
    """Where its score is −inf it has no weight, and where it is inf nothing can be told."""
    query, key, value = (one.detach() for one in inputs(1, 1, 1, 41, 67, 5, 3))
    without = formula(query, key[:, :, 1:], value[:, :, 1:], scale=0.3)
    key[0, 0, 0, 2] = number
    found, masked_out = called(query, key, value), query[0, 0, :, 2] * number < 0
    assert masked_out.any() and not masked_out.all()
    assert_same([found[0, 0, masked_out]], [without[0, 0, masked_out]], 2e-6)
    assert found[0, 0, ~masked_out].isnan().all()
