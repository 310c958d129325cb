"""What comes back to keys that serve at each step of a loop, beside a loop of the formula."""

import gc
import weakref

import pytest
import torch
from torch.testing import assert_close

from regard.kernels.additive.additive import additive_scores
from tests.native import needs_compiler
from tests.rounding import assert_close_to_rounding


def formula(query, key, vector):
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ vector


def by_loop(query, key, vector):
    return additive_scores(query, key, vector, formula, prepared=True)


def given(dtype=torch.float64, hidden=19, queries=1):
    chance = torch.Generator().manual_seed(0)
    shapes = (3, 7, 5), (5, hidden), (4, 3, queries, hidden), (hidden,)
    return [torch.randn(shape, generator=chance, dtype=dtype).requires_grad_() for shape in shapes]


def steps(call, source, weight, queries, vector, rows=(3, 3, 2, 2)):
    """A loop in which what is looked at comes back into the next query, and rows leave it."""
    key, moving, total = source @ weight, queries.new_zeros(3, 1, 1), 0
    for query, living in zip(queries, rows, strict=True):
        if living < len(key):
            key, moving = key[:living], moving[:living]
        scores = call(query[:living] + moving, key, vector)
        moving = scores.softmax(-1).square().sum(-1, keepdim=True)
        total = total + (scores * scores.cos()).sum()
    return total


def all_of(call, parts, **options):
    return torch.autograd.grad(steps(call, *parts), parts, **options)


@pytest.mark.parametrize("hidden", (16, 19, 64))
@pytest.mark.parametrize("queries", (1, 5))
def test_gradients_are_those_of_the_formula(hidden, queries):
    parts = given(hidden=hidden, queries=queries)
    assert_close(all_of(by_loop, parts), all_of(formula, parts), rtol=1e-10, atol=1e-12)


def test_gradients_in_float32():
    parts = given(torch.float32)
    expected = all_of(formula, [one.detach().double().requires_grad_() for one in parts])
    for one, other in zip(all_of(by_loop, parts), expected, strict=True):
        assert (one - other).norm() <= 2e-6 * other.norm()


@needs_compiler
def test_several_threads_change_no_bit():
    source, weight, queries, vector = given(torch.float32, hidden=512, queries=3)
    key, before, found = source @ weight, torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            scores = [by_loop(query, key, vector) for query in queries]
            above = [one.detach().cos() for one in scores]
            found.append([*scores, *torch.autograd.grad(scores, (key, queries, vector), above, retain_graph=True)])
    finally:
        torch.set_num_threads(before)
    (*one, to_vector), (*three, to_vector_by_three) = found
    assert all(map(torch.equal, one, three))
    assert_close_to_rounding(to_vector_by_three, to_vector, 4 * 3 * 3 * 7)  # torch adds up what came from above


def test_twice_back_over_a_graph_that_is_kept():
    parts = given()
    total = steps(by_loop, *parts)
    first = torch.autograd.grad(total, parts, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(total, parts)))


@pytest.mark.parametrize("which", range(4))
def test_only_one_of_them_is_asked_for(which):
    parts = given()
    (found,) = torch.autograd.grad(steps(by_loop, *parts), parts[which])
    assert_close(found, all_of(formula, parts)[which], rtol=1e-10, atol=1e-12)


def test_the_keys_themselves_are_asked_for():
    source, weight, queries, vector = given()

    def of(call):
        key = source @ weight
        total = sum(call(query, key, vector).square().sum() for query in queries)
        return torch.autograd.grad(total, key, retain_graph=True)

    assert_close(of(by_loop), of(formula), rtol=1e-10, atol=1e-12)


def test_a_step_that_nothing_came_back_to():
    source, weight, queries, vector = given()
    key = source @ weight
    used, unused = (by_loop(query, key, vector) for query in queries[:2])
    found = torch.autograd.grad(used.sum(), weight)
    assert unused.requires_grad
    assert_close(found, torch.autograd.grad(formula(queries[0], source @ weight, vector).sum(), weight))


def test_another_pass_within_one():
    """What a hook asks for meanwhile is its own, and takes nothing from the pass that it stands in."""
    source, weight, queries, vector = given()
    key = source @ weight
    first, second = (by_loop(query, key, vector) for query in queries[:2])
    within, other = [], second.sum()
    first.register_hook(lambda _: within.extend(torch.autograd.grad(other, weight, retain_graph=True)))
    found = torch.autograd.grad((first + second).sum(), weight, retain_graph=True)
    plain = [formula(query, source @ weight, vector) for query in queries[:2]]
    assert_close(within, list(torch.autograd.grad(plain[1].sum(), weight, retain_graph=True)))
    assert_close(found, torch.autograd.grad((plain[0] + plain[1]).sum(), weight))


def test_second_derivatives_are_the_formulas():
    parts = given()

    def second(call):
        first = all_of(call, parts, create_graph=True)
        return torch.autograd.grad(sum(one.square().sum() for one in first), parts)

    assert_close(second(by_loop), second(formula), rtol=1e-9, atol=1e-10)


def test_keys_that_were_changed_are_others():
    source, weight, queries, vector = given()
    key = source @ weight
    with torch.no_grad():
        by_loop(queries[0], key, vector)
    by_loop(queries[0], key, vector)
    key.mul_(2)
    found = torch.autograd.grad(by_loop(queries[1], key, vector).sum(), weight)
    assert_close(found, torch.autograd.grad(formula(queries[1], 2 * (source @ weight), vector).sum(), weight))


@pytest.mark.parametrize("leaf", (True, False))
def test_keys_are_not_kept_alive(leaf):
    source, weight, queries, vector = given()
    key = (source @ weight).detach().requires_grad_() if leaf else source @ weight
    by_loop(queries[0], key, vector).sum().backward()
    gone = weakref.ref(key)
    del key
    gc.collect()
    assert gone() is None
