"""Additive scores in blocks of torch's calls: the formula's numbers, however the pairs are cut, and of any size."""

import pytest
import torch

from regard.kernels.additive import blocks as additive_blocks

SIZES = {"several items": (5, 1, 2), "an item": (2, 3, 5), "queries": (3, 7, 5), "keys": (2, 3, 11), "one": (1, 1, 1)}
WIDE = {torch.float32: 17.0, torch.float64: 160.0}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Blocks of 17 hidden units times 7 pairs."""
    monkeypatch.setattr(additive_blocks, "BLOCK", 17 * 7)


def sides(items, queries, keys, dtype=torch.float64, hidden=17):
    """Queries, keys, the vector, and gradients of the scores."""
    generator = torch.Generator().manual_seed(0)
    shapes = (items, queries, hidden), (items, keys, hidden), (hidden,), (items, queries, keys)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def found(query, key, vector, given):
    with torch.no_grad():
        return additive_blocks.scores(query, key, vector), *additive_blocks.gradients(query, key, vector, given)


def expected(query, key, vector, given):
    """Scores and gradients of the formula, in float64."""
    inputs = [one.detach().double().requires_grad_() for one in (query, key, vector)]
    made = torch.tanh(inputs[0].unsqueeze(2) + inputs[1].unsqueeze(1)) @ inputs[2]
    return made.detach(), *torch.autograd.grad(made, inputs, given.double())


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("dtype", "bound"), ((torch.float64, 1e-13), (torch.float32, 1e-5)))
def test_numbers_are_the_formulas(sizes, dtype, bound):
    given = sides(*sizes, dtype)
    for ours, theirs in zip(found(*given), expected(*given), strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=bound, atol=bound)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_each_order_of_wide_sides(sizes):
    """One side beyond a narrow one's reach, both in part, both throughout: exponentials of one, or none."""
    query, key, vector, given = sides(*sizes)
    cases = [(of_query * query, of_key * key) for of_query, of_key in ((300, 1), (1, 300), (300, 300), (160, 170))]
    for a, b in (*cases, (query - 1000, key + 1000)):
        for ours, theirs in zip(found(a, b, vector, given), expected(a, b, vector, given), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("swapped", (False, True))
def test_the_widest_narrow_side_and_a_far_one(dtype, swapped):
    """Exponentials as large and as small as one side may have them, with a side beyond what is multiplied by them."""
    wide = WIDE[dtype]
    far = torch.tensor([-300.0, -wide - 3, -wide, -1, 0, 2, wide, wide + 4, 300], dtype=dtype)
    far = far.view(1, 9, 1).expand(1, 9, 13)
    narrow = torch.linspace(-wide, wide, 11, dtype=dtype).view(1, 11, 1).expand(1, 11, 13)
    query, key = (narrow, far) if swapped else (far, narrow)
    vector = torch.rand(13, generator=torch.Generator().manual_seed(0)).to(dtype)
    ours, theirs = (
        additive_blocks.scores(query, key, vector),
        (query.double().mT[:, 0, :, None] + key.double().mT[:, :1]),
    )
    bound = 4 * torch.finfo(dtype).eps * vector.sum().item()
    torch.testing.assert_close(ours.double(), theirs.tanh() * vector.double().sum(), rtol=0, atol=bound)


@pytest.mark.parametrize("reach", (1.0, 4.0, 16.0))
def test_float32_is_right_to_some_units_in_the_last_place(reach):
    """Of Σ|v| in a score, of a gradient's terms without signs; and for pairs that cancel."""
    query, key, vector, given = sides(3, 37, 41, torch.float32, hidden=29)
    query, key = (side / side.abs().max() * reach for side in (query, key))
    key[0, :29] = -query[0, :29]
    scores, *gradients = found(query, key, vector, given)
    exact, *slopes = expected(query, key, vector, given)
    unit = torch.finfo(torch.float32).eps
    assert (scores - exact).abs().max() <= 8 * unit * vector.abs().sum()
    # What each gradient adds up, without its signs; and what r (1 − r) loses where r is near 1.
    _, *sizes = expected(query, key, vector.abs(), given.abs())
    weights = vector.double().abs()
    rounded = [given.double().abs().sum(axis).unsqueeze(-1) * weights for axis in (2, 1)]
    for ours, theirs, size, lost in zip(gradients[:2], slopes[:2], sizes[:2], rounded, strict=True):
        assert ((ours - theirs).abs() <= 8 * unit * ((1 + reach) * size + lost)).all()
    assert ((gradients[2] - slopes[2]).abs() <= 8 * unit * given.abs().sum()).all()


def test_hidden_units_keep_their_errors_to_themselves():
    """A unit without weight has no gradient, and one of a small weight as exact a one, beside a unit of a large one."""
    query, key, _, given = sides(2, 17, 19, torch.float32, hidden=6)
    vector = torch.tensor([1e3, 0.0, 1e3, 1e-6, 1e-6, 1e3])
    _, to_query, to_key, _ = found(query, key, vector, given)
    _, query_slope, key_slope, _ = expected(query, key, vector, given)
    for ours, theirs in ((to_query, query_slope), (to_key, key_slope)):
        assert (ours[..., 1] == 0).all()
        largest = theirs.abs().amax((0, 1))
        assert ((ours - theirs).abs() <= 1e-5 * largest).all()


@pytest.mark.parametrize("size", (2.0**-100, 1e-18, 1e-12, 1e20, 1e35))
@pytest.mark.parametrize("reach", (0.5, 8.0))
def test_gradients_of_any_size_keep_their_digits(size, reach):
    query, key, vector, given = sides(3, 17, 19, torch.float32, hidden=5)
    query, key, given = query.sign() * reach, key.sign() * reach, given * size
    _, *slopes = expected(query, key, vector, given)
    for ours, theirs in zip(found(query, key, vector, given)[1:], slopes, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=float(theirs.abs().max()) * 1e-6)


def test_a_nan_stays_with_its_query_and_the_keys_that_it_meets():
    query, key, vector, given = sides(3, 7, 5)
    query[1, 2, 3] = torch.nan
    scores, to_query, to_key, to_vector = found(query, key, vector, given)
    assert scores.isnan().nonzero()[:, :2].unique(dim=0).tolist() == [[1, 2]]
    assert to_query.isnan().nonzero().tolist() == [[1, 2, 3]]
    assert to_key.isnan().nonzero().tolist() == [[1, place, 3] for place in range(5)]
    assert to_vector.isnan().nonzero().tolist() == [[3]]


@pytest.mark.parametrize("wrong", (torch.nan, torch.inf))
def test_a_gradient_that_is_not_finite_touches_its_query_and_key_alone(wrong):
    query, key, vector, given = sides(2, 3, 5)
    given[1, 2, 4] = wrong
    _, to_query, to_key, to_vector = found(query, key, vector, given)
    assert not to_query[1, 2].isfinite().any() and not to_key[1, 4].isfinite().any() and not to_vector.isfinite().any()
    assert to_query.isfinite().sum() == 5 * 17 and to_key.isfinite().sum() == 9 * 17


@pytest.mark.parametrize("dtype", WIDE)
def test_items_change_nothing_of_each_other(dtype):
    """Those of one block, too."""
    query, key, vector, given = sides(2, 1, 2, dtype)
    first = found(query, key, vector, given)[:3]
    for beside in (8, -8, WIDE[dtype], -WIDE[dtype]):
        key[1] = beside
        for ours, theirs in zip(found(query, key, vector, given)[:3], first, strict=True):
            assert torch.equal(ours[0], theirs[0])
    bound = 16 * torch.finfo(dtype).eps
    for beside in (1e4, torch.nan, torch.inf, -torch.inf):  # σ by another way
        key[1] = beside
        for ours, theirs in zip(found(query, key, vector, given)[:3], first, strict=True):
            torch.testing.assert_close(ours[0], theirs[0], rtol=bound, atol=bound)


@pytest.mark.parametrize("how", ("expanded", "transposed", "strided"))
def test_any_layout_of_memory(how):
    plain = sides(2, 3, 5)
    query, key, vector, given = plain
    if how == "expanded":
        query, key = query[:1].expand(2, 3, 17), key[:, :1].expand(2, 5, 17)
    elif how == "transposed":
        query, key, given = (one.mT.contiguous().mT for one in (query, key, given))
    else:
        query, key, vector, given = (torch.stack((one, one), -1)[..., 0] for one in plain)
    made = query, key, vector, given
    for ours, theirs in zip(found(*made), expected(*made), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_default_device_is_not_where_numbers_are_made():
    given = sides(2, 17, 19, torch.float32)
    plain = found(*given)
    with torch.device("meta"):
        elsewhere = found(*given)
    assert all(map(torch.equal, elsewhere, plain))


def test_what_is_found_is_a_tensor_like_any_other():
    """It may be differentiated, and changed; and all may be asked for in inference mode."""
    *inputs, given = sides(2, 3, 5)
    inputs = [side.requires_grad_() for side in inputs]
    plain = found(*inputs, given)
    for one in plain:
        assert not one.is_inference() and not one.requires_grad
        leaf = one.clone().requires_grad_()
        (leaf * one).sum().backward()
        assert torch.equal(leaf.grad, one)
    with torch.inference_mode():
        assert all(map(torch.equal, found(*inputs, given), plain))
