"""What the loop tells of its weights: the definition's numbers, of weights that are formed."""

import pytest
import torch

from regard.kernels.dot.dot import Visible, attention_and_statistics, statistics
from tests.kernels.dot.dot_reference import ALL, CAUSAL, assert_same, formula, inputs, weights_of
from tests.native import needs_compiler

pytestmark = needs_compiler


def statistics_of_loop(query, key, visible=ALL, bias=None, scale=0.3, top=0):
    return statistics(query, key, visible=visible, bias=bias, scale=scale, top=top)


def told_with_context(query, key, value, visible=ALL, bias=None, scale=0.3, top=0):
    return attention_and_statistics(query, key, value, visible=visible, bias=bias, scale=scale, top=top)


# The second is gone through in three parts, the last in as few rows at a time as there can be.
SIZES = [(2, 3, 3, 5, 9, 3, 2), (2, 6, 2, 97, 131, 13, 37), (1, 2, 1, 31, 11003, 5, 3)]
VISIBLE = {
    "all": lambda batch, queries, keys: ALL,
    "causal to the end": lambda batch, queries, keys: CAUSAL._replace(offset=keys - queries),
    "some see nothing": lambda batch, queries, keys: CAUSAL._replace(offset=-2),
    "all of it": lambda batch, queries, keys: Visible(
        True, 1, (keys // 3, 3), [keys // 2] * batch, torch.rand(1, 1, queries, keys) > 0.3
    ),
    "lengths": lambda batch, queries, keys: ALL._replace(lengths=[13 * item % (keys + 1) for item in range(batch)]),
    "few": lambda batch, queries, keys: ALL._replace(keep=torch.rand(batch, 1, queries, keys) > 0.9),
}


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16))
@pytest.mark.parametrize("visible", VISIBLE)
@pytest.mark.parametrize("sizes", SIZES)
def test_each_number_is_the_definitions(sizes, visible, dtype):
    torch.manual_seed(0)
    query, key, value = (one.detach() for one in inputs(*sizes, dtype))
    seen = VISIBLE[visible](sizes[0], *sizes[3:5])
    bias = torch.randn(sizes[1], 1, sizes[4], dtype=torch.float64)
    # A sum over keys or over queries is of as many roundings.
    bound = 1e-12 if dtype == torch.float64 else 8e-6
    for given, top in ((None, 0), (None, 8), (bias, 1), (bias, 9)):  # a vector of float64 has eight numbers
        exact = weights_of(query, key, seen, given, 0.3)
        context, *found = told_with_context(query, key, value, seen, given, top=top)
        for one, other in zip(found, statistics_of_loop(query, key, seen, given, top=top), strict=True):
            assert torch.equal(one, other) and not one.requires_grad
        entropy, maximum, received, top_weights, top_keys = found
        expected = torch.special.entr(exact).sum(-1), exact.amax(-1), exact.sum(-2), exact.topk(top).values
        assert_same((entropy, maximum, received, top_weights), expected, bound)
        assert_same([exact.gather(-1, top_keys)], [top_weights], bound)
        assert all(len(set(keys)) == top for keys in top_keys.flatten(0, 2).tolist())
        assert entropy.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        rounding = 1e-2 if dtype == torch.bfloat16 else bound
        assert context.dtype == dtype
        assert_same([context], [formula(query, key, value, seen, given, 0.3)], rounding)


def test_the_first_of_equal_keys_and_those_that_are_not_seen():
    query, key = torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 37, 2)
    keep = torch.zeros(3, 37, dtype=torch.bool)
    keep[0, [30, 3, 20]] = True
    keep[1] = True
    entropy, maximum, received, weights, keys = statistics_of_loop(query, key, ALL._replace(keep=keep), top=5)
    third = torch.tensor(1 / 3)
    torch.testing.assert_close(entropy[0, 0], torch.tensor([3.0, 37.0, 1.0]).log())
    torch.testing.assert_close(maximum[0, 0], torch.tensor([1 / 3, 1 / 37, 0.0]))
    torch.testing.assert_close(received[0, 0], keep[0] / 3 + keep[1] / 37)
    assert keys[0, 0].tolist() == [[3, 20, 30, 0, 1], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    torch.testing.assert_close(weights[0, 0, 0], torch.stack([third, third, third, 0 * third, 0 * third]))
    assert not weights[0, 0, 2].any()
    assert statistics_of_loop(query, key, ALL._replace(lengths=[2]), top=37)[4][0, 0, 0].tolist() == list(range(37))


def test_one_key_has_no_entropy_and_all_of_the_weight():
    query, key, _ = (one.detach() for one in inputs(2, 4, 2, 13, 1, 5, 3))
    entropy, maximum, received, weights, keys = statistics_of_loop(query, key, top=1)
    assert not entropy.any() and (maximum == 1).all() and (received == 13).all() and (weights == 1).all()
    assert not keys.any()


@pytest.mark.parametrize("number", (torch.nan, torch.inf))
def test_nan_stays_with_the_row_and_the_keys_that_it_attends_to(number):
    query, key, value = (one.detach() for one in inputs(1, 2, 2, 29, 131, 5, 3))
    bias = torch.zeros(1, 2, 29, 131)
    bias[0, 0, 9, 4] = number  # seen
    bias[0, 1, 9, 99] = number  # hidden
    found = told_with_context(query, key, value, CAUSAL, bias, top=12)
    regular = told_with_context(query, key, value, CAUSAL, torch.zeros_like(bias), top=12)
    context, entropy, maximum, received, weights, keys = found
    is_nan = torch.zeros(1, 2, 29, dtype=torch.bool)
    is_nan[0, 0, 9] = True
    for one, other in ((context, regular[0]), (entropy, regular[1]), (maximum, regular[2])):
        assert one[is_nan].isnan().all() and torch.equal(one[~is_nan], other[~is_nan])
    reached = torch.zeros(1, 2, 131, dtype=torch.bool)
    reached[0, 0, :10] = True
    assert torch.equal(received.isnan(), reached) and torch.equal(received[~reached], regular[3][~reached])
    assert keys[0, 0, 9].tolist() == list(range(12)) and weights[0, 0, 9].isnan().tolist() == [True] * 10 + [False] * 2
    assert not weights[0, 0, 9, 10:].any() and torch.equal(weights[~is_nan], regular[4][~is_nan])


@pytest.mark.parametrize("sizes", ((0, 2, 2, 5, 7, 3, 2), (2, 2, 1, 0, 7, 3, 2), (2, 2, 1, 5, 0, 3, 2)))
def test_nothing_of_something(sizes):
    query, key, _ = (one.detach() for one in inputs(*sizes))
    batch, heads, _, queries, keys, _, _ = sizes
    entropy, maximum, received, weights, _ = statistics_of_loop(query, key, top=0)
    assert entropy.shape == maximum.shape == (batch, heads, queries) and received.shape == (batch, heads, keys)
    assert weights.shape == (batch, heads, queries, 0) and not (entropy.any() or maximum.any() or received.any())


def test_three_axes_and_threads():
    query, key, value = (one.detach() for one in inputs(3, 1, 1, 211, 401, 13, 5))
    expected = told_with_context(query, key, value, CAUSAL, top=3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        headless = told_with_context(*(one.squeeze(1) for one in (query, key, value)), CAUSAL, top=3)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(headless, expected, strict=True):
        assert torch.equal(one, other.squeeze(1))
