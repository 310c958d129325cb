"""Additive scores by matrix products: the formula's numbers in float64, bounds in float32, what they leave alone."""

import pytest
import torch

from regard.kernels.additive import products as additive_products


def tanh_scores(query, key, vector):
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ vector


def sides(*lead, queries, keys, hidden, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    shapes = (*lead, queries, hidden), (*lead, keys, hidden), (hidden,)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).mul(scale).to(dtype) for shape in shapes]


def expected(query, key, vector, given):
    """Scores and gradients of the formula, in float64."""
    inputs = [one.double().requires_grad_() for one in (query, key, vector)]
    made = tanh_scores(*inputs)
    return made.detach(), *torch.autograd.grad(made, inputs, given.double())


def found(query, key, vector, given):
    return (
        additive_products.scores(query, key, vector),
        *additive_products.gradients(query, key, vector, given),
    )


# Groups of three and of two hidden units with 0, 1 and 2 that are left, one unit alone, one query, one key.
@pytest.mark.parametrize("hidden", (1, 2, 3, 7, 11))
@pytest.mark.parametrize(("lead", "queries", "keys"), (((2, 3), 5, 7), ((5,), 1, 7), ((3,), 5, 1)))
# Blocks of several items, of one, and of some of its queries; powers of all groups at once, or of one.
@pytest.mark.parametrize(("block", "powers"), ((2**17, 2**20), (80, 2**20), (40, 500), (11, 1)))
def test_numbers_are_the_formulas(lead, queries, keys, hidden, block, powers, monkeypatch):
    monkeypatch.setattr(additive_products, "_BLOCK", block)
    monkeypatch.setattr(additive_products, "_POWERS", powers)
    monkeypatch.setattr(additive_products, "_UNITS", 6)
    query, key, vector = sides(*lead, queries=queries, keys=keys, hidden=hidden)
    given = torch.randn(*lead, queries, keys, dtype=torch.float64)
    for ours, theirs in zip(found(query, key, vector, given), expected(query, key, vector, given), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reach", (1.0, 4.0, 7.99))
def test_float32_is_right_to_some_units_in_the_last_place(reach):
    """Of Σ|v| in a score, of a gradient's terms without signs, to where `serves` ends; and for pairs that cancel."""
    query, key, vector = sides(3, queries=37, keys=41, hidden=29, dtype=torch.float32)
    query, key = (side / side.abs().max() * reach for side in (query, key))
    key[0, :29] = -query[0, :29]
    given = torch.randn(3, 37, 41)
    assert additive_products._largest(query) + additive_products._largest(key) <= 16
    fits = min(1.0, 7 / reach)
    scores = additive_products.scores(query * fits, key * fits, vector)
    exact, *_ = expected(query * fits, key * fits, vector, given)
    gradients, (_, *slopes) = (
        additive_products.gradients(query, key, vector, given),
        expected(query, key, vector, given),
    )
    unit = torch.finfo(torch.float32).eps
    assert (scores - exact).abs().max() <= 8 * unit * vector.abs().sum()
    # What each gradient adds up, without its signs.
    _, *sizes = expected(query, key, vector.abs(), given.abs())
    for ours, theirs, size in zip(gradients[:2], slopes[:2], sizes[:2], strict=True):
        assert ((ours - theirs).abs() <= 8 * unit * (1 + reach) * size).all()
    assert ((gradients[2] - slopes[2]).abs() <= 8 * unit * given.abs().sum()).all()


def test_hidden_units_keep_their_errors_to_themselves():
    """A unit without weight has no gradient, and one of a small weight as exact a one, beside a unit of a large one."""
    query, key, vector = sides(2, queries=17, keys=19, hidden=6, dtype=torch.float32)
    vector = torch.tensor([1e3, 0.0, 1e3, 1e-6, 1e-6, 1e3])
    given = torch.randn(2, 17, 19)
    _, to_query, to_key, _ = found(query, key, vector, given)
    _, query_slope, key_slope, _ = expected(query, key, vector, given)
    for ours, theirs in ((to_query, query_slope), (to_key, key_slope)):
        assert (ours[..., 1] == 0).all()
        largest = theirs.abs().amax((0, 1))
        assert ((ours - theirs).abs() <= 1e-5 * largest).all()


def test_it_serves_what_no_power_overflows_for(monkeypatch):
    monkeypatch.setattr(additive_products, "_LEAST", 1)
    monkeypatch.setattr(additive_products, "_SIDE", 1)
    monkeypatch.setattr(additive_products, "_SIDE_BACKWARD", 1)
    query, key, vector = torch.zeros(1, 2, 3), torch.zeros(1, 5, 3), torch.ones(3)
    for a, b, forward, backward in (
        (8.0, -8.0, True, True),
        (8.1, -8.0, True, False),
        (7.0, 7.0, True, True),
        (7.1, 7.0, False, True),
        (12.0, 2.0, True, True),
        (-1.0, 12.1, False, True),
        (-1e30, -1e30, True, False),
    ):
        for query[0, 1, 2], key[0, 3, 0] in ((a, b), (b, a)):
            assert (additive_products.scores(query, key, vector) is not None) is forward
            assert additive_products.serves(query, key, vector, backward=True) is backward
    query.zero_(), key.zero_()
    for wrong in (torch.nan, torch.inf, -torch.inf):
        for tensor in (query, key, vector):
            tensor.view(-1)[1] = wrong
            assert not additive_products.serves(query, key, vector, backward=True)
            if tensor is vector:
                assert not additive_products.serves(query, key, vector, backward=False)
            else:
                assert additive_products.scores(query, key, vector) is None
            tensor.view(-1)[1] = 1.0
    assert additive_products.serves(query, key, vector, backward=False)
    assert not additive_products.serves(query, key, vector * 1e7, backward=False)
    assert additive_products.serves(query, key, vector * 1e6, backward=True)


@pytest.mark.parametrize("at", (2.0, 7.0, 12.0))
def test_the_largest_numbers_that_it_serves_overflow_nowhere(at):
    """And the smallest ones beside them, which go down as far as they please, leave no trace."""
    query, key, vector = torch.full((1, 4, 6), at), torch.full((1, 3, 6), 14 - at), torch.full((6,), 2.0**20)
    query[0, 1], query[0, 2], query[0, 3] = at - 14, -17, -1e30
    scores = additive_products.scores(query, key, vector)
    exact = tanh_scores(query.double(), key.double(), vector.double())
    assert (scores[0, 0] == 6 * 2.0**20).all() and (scores - exact).abs().max() <= 2.0**20 * 1e-5
    query, key = torch.full((1, 2, 6), 8.0), torch.full((1, 3, 6), 8.0)
    given = torch.ones(1, 2, 3)
    _, *slopes = expected(query, key, vector, given)
    for ours, theirs in zip(additive_products.gradients(query, key, vector, given), slopes, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrong", (torch.nan, torch.inf))
def test_a_gradient_that_is_not_finite_touches_its_query_and_key_alone(wrong):
    query, key, vector = sides(2, queries=3, keys=5, hidden=7)
    given = torch.randn(2, 3, 5, dtype=torch.float64)
    given[1, 2, 4] = wrong
    to_query, to_key, to_vector = additive_products.gradients(query, key, vector, given)
    assert not to_query[1, 2].isfinite().any() and not to_key[1, 4].isfinite().any() and not to_vector.isfinite().any()
    assert to_query.isfinite().sum() == 5 * 7 and to_key.isfinite().sum() == 9 * 7


@pytest.mark.parametrize("how", ("expanded", "transposed", "strided"))
def test_any_layout_of_memory(how):
    plain = sides(2, queries=3, keys=5, hidden=7)
    query, key, vector = plain
    if how == "expanded":
        query, key = query[:1].expand(2, 3, 7), key[:, :1].expand(2, 5, 7)
    elif how == "transposed":
        query, key = query.mT.contiguous().mT, key.mT.contiguous().mT
    else:
        query, key, vector = (torch.stack((one, one), -1)[..., 0] for one in plain)
    given = torch.randn(2, 5, 3, dtype=torch.float64).mT
    for ours, theirs in zip(found(query, key, vector, given), expected(query, key, vector, given), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", (2.0**-100, 1e-18, 1e-12, 1e20, 1e35))
@pytest.mark.parametrize("reach", (0.5, 8.0))
def test_gradients_of_any_size_keep_their_digits(size, reach):
    """Divided by the square of e^32 small ones would be no numbers any more, and times it large ones would be inf."""
    query, key, vector = sides(3, queries=17, keys=19, hidden=5, dtype=torch.float32)
    query, key = query.sign() * reach, key.sign() * reach
    given = torch.randn(3, 17, 19) * size
    _, *slopes = expected(query, key, vector, given)
    for ours, theirs in zip(additive_products.gradients(query, key, vector, given), slopes, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=float(theirs.abs().max()) * 1e-6)


def test_no_vector_is_served_whose_powers_are_no_numbers():
    query, key, vector = sides(2, queries=127, keys=131, hidden=7, dtype=torch.float32)
    query, key = query.sign() * 7, key.sign() * 7
    for size in (1e-23, 1e-26, 0.0):
        small = vector / vector.abs().max() * size
        assert additive_products.serves(query, key, small, backward=False) is (size == 1e-23)
    exact = tanh_scores(query.double(), key.double(), vector.double() * 1e-23)
    ours = additive_products.scores(query, key, vector * 1e-23).double()
    assert (ours - exact).abs().max() <= 1e-6 * 1e-23 * vector.abs().sum()


def test_a_default_device_is_not_where_numbers_are_made():
    query, key, vector = sides(2, queries=17, keys=19, hidden=7, dtype=torch.float32)
    given = torch.randn(2, 17, 19) * 1e-20
    plain = found(query, key, vector, given)
    with torch.device("meta"):
        elsewhere = found(query, key, vector, given)
    for one, other in zip(elsewhere, plain, strict=True):
        assert torch.equal(one, other)


def test_what_is_found_is_a_tensor_like_any_other():
    """Though it is made in inference mode, it may be differentiated, and changed; and all may be asked for in there."""
    given_sides = [side.requires_grad_() for side in sides(2, queries=17, keys=19, hidden=7)]
    given = torch.randn(2, 17, 19, dtype=torch.float64)
    with torch.no_grad():
        plain = found(*given_sides, given)
    for one in plain:
        assert not one.is_inference() and not one.requires_grad
        leaf = one.clone().requires_grad_()
        (leaf * one).sum().backward()
        assert torch.equal(leaf.grad, one)
        assert torch.equal(one.add_(1).sub_(1), one)
    with torch.inference_mode():
        for one, other in zip(found(*given_sides, given), plain, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
