"""Cosines in the native loop: vectors divided by their lengths where they are packed, beside the formula."""

import pytest
import torch

import regard
from regard import attend
from regard.kernels.dot import dot
from regard.kernels.dot.dot import attention, attention_and_statistics
from tests.kernels.dot.dot_reference import ALL, CAUSAL, assert_same, formula, inputs
from tests.native import needs_compiler

pytestmark = needs_compiler

BOTH = (True, True)
SIZES = [(2, 3, 3, 5, 7, 3, 2), (2, 6, 2, 97, 131, 13, 37), (1, 2, 1, 211, 503, 64, 65), (3, 2, 2, 1, 31, 32, 32)]


def divided(vectors):
    """Of length 1, but for those too short to have a direction."""
    length = vectors.square().sum(-1, keepdim=True)
    short = length <= 1e-24
    return torch.where(short, 0.0, vectors / length.masked_fill(short, 1.0).sqrt())


def called(given, visible, directions, scale):
    return attention(*given, visible=visible, bias=None, scale=scale, dropout=0.0, directions=directions)


def expected_of(given, visible, directions, scale):
    query, key, value = (one.double() for one in given)
    query, key = (divided(one) if wanted else one for one, wanted in zip((query, key), directions, strict=True))
    return formula(query, key, value, visible, scale=scale)


def assert_formula(given, bound, visible=ALL, directions=BOTH, scale=7.0):
    """Context and all gradients."""
    ours, theirs = (make(given, visible, directions, scale) for make in (called, expected_of))
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = [one for one in given if one.requires_grad]
    found = torch.autograd.grad(ours, wanted, upstream.to(ours.dtype))
    assert_same([ours], [theirs], bound)
    assert_same(found, torch.autograd.grad(theirs, wanted, upstream.to(ours.dtype).double()), bound)
    return found


@pytest.mark.parametrize("unit", (True, False))
@pytest.mark.parametrize("directions", (BOTH, (True, False), (False, True)))
@pytest.mark.parametrize("sizes", SIZES)
def test_context_and_gradients(sizes, directions, unit, monkeypatch):
    monkeypatch.setattr(dot, "_MATRIX_UNIT", unit)
    scale = 7.0 if all(directions) else 1.0
    for visible in (ALL, CAUSAL._replace(offset=-2), ALL._replace(lengths=[5] * sizes[0])):
        assert_formula(inputs(*sizes, torch.float64), 3e-14, visible, directions, scale)
        assert_formula(inputs(*sizes), 4e-6, visible, directions, scale)


@pytest.mark.parametrize("length", (0.0, 1e-14, 1e-6, 1e6, 1e25))
@pytest.mark.parametrize("which", (0, 1))
def test_vectors_that_are_very_short_or_long(which, length):
    given = [one.detach() for one in inputs(1, 2, 2, 41, 67, 5, 3)]
    given[which][0, 1, 7] *= length
    slopes = assert_formula([one.requires_grad_() for one in given], 1e-5 if length != 1e-6 else 3e-6)
    assert slopes[which][0, 1, 7].isfinite().all()
    assert slopes[which][0, 1, 7].any() == (length >= 1e-6)  # below, there is no direction


@pytest.mark.parametrize("number", (torch.nan, torch.inf))
def test_a_vector_that_is_not_finite_touches_no_other_query(number):
    given = [one.detach() for one in inputs(1, 2, 2, 41, 67, 5, 3)]
    expected = called(given, CAUSAL, BOTH, 7.0)
    given[0][0, 1, 7, 2] = given[1][0, 0, 39, 1] = number
    found = called(given, CAUSAL, BOTH, 7.0)
    is_nan = torch.zeros(1, 2, 41, dtype=torch.bool)
    is_nan[0, 1, 7] = is_nan[0, 0, 39:] = True
    assert found[is_nan].isnan().all()
    assert_same([found[~is_nan]], [expected[~is_nan]], 2e-6)


def test_only_what_is_asked_for_and_any_strides_and_three_axes():
    query, key, value = inputs(3, 1, 1, 97, 131, 13, 5)
    turned = [one.detach().mT.contiguous().mT for one in (query, key, value)]
    for asking in range(3):
        given = [one.clone().as_strided(one.shape, one.stride()) for one in turned]
        given[asking].requires_grad_()
        assert_formula(given, 4e-6)
    headless = called([one.squeeze(1) for one in turned], ALL, BOTH, 7.0)
    assert torch.equal(headless, called(turned, ALL, BOTH, 7.0).squeeze(1))


def test_threads_change_nothing():
    given = inputs(2, 6, 2, 211, 401, 13, 5)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = called(given, ALL, BOTH, 7.0)
        slopes = torch.autograd.grad(expected.square().sum(), given)
        torch.set_num_threads(3)
        found = called(given, ALL, BOTH, 7.0)
        assert torch.equal(found, expected)
        assert all(map(torch.equal, torch.autograd.grad(found.square().sum(), given), slopes))
    finally:
        torch.set_num_threads(before)


def test_statistics_are_those_of_the_cosines():
    query, key, value = (one.detach() for one in inputs(2, 6, 2, 97, 131, 13, 5))
    options = {"visible": CAUSAL, "bias": None, "scale": 7.0, "top": 3}
    found = attention_and_statistics(query, key, value, **options, directions=BOTH)
    expected = attention_and_statistics(divided(query), divided(key), value, **options)
    assert_same(found[:5], expected[:5], 8e-6)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("prepared", (True, False))
@pytest.mark.parametrize("learned", (True, False))
def test_the_score_by_the_loop_and_as_it_is_written(learned, prepared, dtype):
    given = inputs(2, 6, 2, 97, 131, 13, 5, dtype)
    strength = torch.linspace(1, 9, 97).expand(2, 97).clone().requires_grad_() if learned else 5.0
    score = regard.score("cosine", strength=strength)
    wanted = [*given, strength] if learned else given
    key = score.prepare(given[1]) if prepared else given[1]
    assert regard.explain(given[0], key, given[2], score=score).path == "native"
    found = attend(given[0], key, given[2], score=score)
    scale = strength.double()[:, None, :, None] if learned else strength
    query, keys, value = (one.double() for one in given)
    exact = formula(divided(query) * scale, divided(keys), value)
    bound = 4e-6 if dtype is torch.float32 else 2e-2
    assert_same([found.context], [exact], bound)
    weights = torch.softmax(divided(query) * scale @ divided(keys).repeat_interleave(3, 1).mT, -1)
    assert_same([found.weights], [weights], bound)
    assert_same(
        torch.autograd.grad(found.context.double().square().sum(), wanted),
        torch.autograd.grad(exact.square().sum(), wanted),
        bound,
    )


def test_weights_are_nan_where_a_key_is():
    query, key, value = (one.detach() for one in inputs(1, 2, 2, 61, 67, 5, 3))
    key[0, 1, 7, 2] = torch.nan
    attended = attend(query, key, value, score="cosine")
    assert attended.context[0, 1].isnan().all() and attended.context[0, 0].isfinite().all()
    assert attended.weights[0, 1].isnan().all() and attended.weights[0, 0].isfinite().all()


def test_there_is_no_second_derivative():
    query, key, value = inputs(1, 2, 2, 61, 67, 5, 3)
    (slope,) = torch.autograd.grad(called((query, key, value), ALL, BOTH, 7.0).square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        slope.sum().backward()
