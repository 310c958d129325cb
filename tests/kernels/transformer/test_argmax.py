"""Greedy search's choice in one compiled call, beside float64."""

import numpy as np
import pytest
import torch

from regard.decoding.choose import expand
from regard.errors import RegardError
from regard.kernels.transformer import argmax
from tests.native import needs_compiler

pytestmark = needs_compiler


def slowly(logits, banned=None):
    exact = logits.double()
    allowed = exact if banned is None else exact.masked_fill(banned, -torch.inf)
    value, best = allowed.max(dim=1, keepdim=True)
    return best.numpy(), (value - exact.logsumexp(1, keepdim=True)).numpy()


@pytest.mark.parametrize("choices", [1, 2, 15, 16, 17, 31, 1023, 1024, 1041, 8009])
@pytest.mark.parametrize("spread", [0.01, 3.0, 60.0])
def test_it_is_the_largest_and_its_log_probability(choices, spread):
    draw = torch.Generator().manual_seed(choices)
    logits = spread * torch.randn(7, choices, generator=draw)
    banned = torch.rand(choices, generator=draw) < 0.3
    banned[-1] = False
    for marks in (None, banned, torch.zeros(choices, dtype=torch.bool)):
        best, found = argmax.first(logits, marks)
        expected, exact = slowly(logits, marks)
        np.testing.assert_array_equal(best, expected)
        np.testing.assert_allclose(found, exact, rtol=2e-7, atol=2e-7)


def test_of_equal_ones_it_is_the_first():
    logits = torch.randint(0, 3, (97, 53), generator=torch.Generator().manual_seed(0)).float()
    logits[logits == 0] = -torch.inf
    banned = torch.zeros(53, dtype=torch.bool)
    banned[[0, 1, 2, 7]] = True
    for marks in (None, banned):
        shown = logits if marks is None else logits.masked_fill(marks, -torch.inf)
        np.testing.assert_array_equal(argmax.first(logits, marks)[0], shown.numpy().argmax(1, keepdims=True))


@pytest.mark.parametrize("place", [0, 5, 16, 36])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_what_is_no_number_is_refused(place, number):
    logits = torch.randn(3, 37)
    logits[1, place] = number
    assert argmax.first(logits, None) is None
    with pytest.raises(RegardError, match=r"NaN or \+inf"):
        expand(logits, None, np.zeros((3, 1)), 1)
    assert argmax.first(logits[2:], None) is not None


def test_where_nothing_may_follow():
    """All −inf, all banned, numbers as far apart as they go, and 0 of −0."""
    nothing = torch.full((1, 19), -torch.inf)
    assert [one.item() for one in argmax.first(nothing, None)] == [0, -np.inf]
    assert [one.item() for one in argmax.first(torch.randn(1, 19), torch.ones(19, dtype=torch.bool))] == [0, -np.inf]
    apart = torch.tensor([[-3e38, 3e38, -torch.inf], [-torch.inf, -3e38, -torch.inf]])
    best, found = argmax.first(apart, None)
    assert best.tolist() == [[1], [1]] and found.tolist() == [[0], [0]]
    assert argmax.first(torch.tensor([[-1.0, -0.0, 0.0]]), None)[0].item() == 1


def test_rows_may_lie_apart():
    logits = torch.randn(5, 3, 41)
    np.testing.assert_array_equal(argmax.first(logits[:, 1], None)[0], logits[:, 1].argmax(1, keepdim=True).numpy())
    marks = (torch.rand(82) < 0.5)[::2]
    np.testing.assert_array_equal(argmax.first(logits[:, 1], marks)[0], slowly(logits[:, 1], marks)[0])
    assert [one.shape for one in argmax.first(torch.empty(0, 7), None)] == [(0, 1), (0, 1)]


def test_what_it_does_not_serve():
    """Other types, rows with gaps, no choices, masks of other sizes, and a machine without a compiler."""
    logits = torch.randn(2, 6)
    assert argmax.serves(logits, None) and argmax.serves(logits, torch.zeros(6, dtype=torch.bool))
    assert not argmax.serves(logits.double(), None) and not argmax.serves(logits.T, None)
    assert not argmax.serves(logits[:, :0], None) and not argmax.serves(logits[0], None)
    assert not argmax.serves(logits, torch.zeros(5, dtype=torch.bool))
    assert not argmax.serves(logits, torch.zeros(6)) and not argmax.serves(logits.to("meta"), None)


@pytest.mark.parametrize("banned", [None, torch.arange(211) % 3 == 0])
def test_search_chooses_the_same_without_it(banned, monkeypatch):
    logits, totals = 4 * torch.randn(31, 211), np.random.default_rng(0).normal(size=(31, 1))
    ours = expand(logits, banned, totals, 1)
    monkeypatch.setattr(argmax, "serves", lambda *given: False)
    usual = expand(logits, banned, totals, 1)
    for one, other in zip(ours, usual, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
