"""Draws in place of a search: they follow what the table says, and depend on seed and number only."""

import math

import numpy as np
import pytest

from regard.decoding.settings import SearchSettings
from tests.decoding.searched import END, find, table
from tests.reference.search import random_rule


def test_draws_follow_the_distribution():
    """1,500 items: each share within 4.5 standard errors; temperature 2 flattens; the sum stays the model's own."""
    probabilities = (0.0, 0.1, 0.2, 0.7)
    rule = table({}, probabilities)
    items = list(range(1500))
    for temperature in (1.0, 2.0):
        settings = SearchSettings(sample=True, temperature=temperature, max_length=1, seed=5)
        found = find(rule, items, settings)
        share = np.array(probabilities) ** (1 / temperature)
        share /= share.sum()
        drawn = np.bincount([h[0].ids[0] if h[0].ids else END for h in found], minlength=4) / len(items)
        assert np.all(np.abs(drawn - share) <= 4.5 * np.sqrt(share * (1 - share) / len(items)))
        assert found[0][0].log_probability == pytest.approx(
            math.log(probabilities[(found[0][0].ids or [END])[0]]), abs=1e-5
        )


@pytest.mark.parametrize("cut, allowed", [
    ({"top_k": 1}, {3}), ({"top_k": 2}, {2, 3}), ({"top_p": 0.45}, {3}), ({"top_p": 0.46}, {2, 3}),
    ({"top_p": 0.75}, {2, 3}), ({"top_p": 0.76}, {2, 3, 4}), ({"top_k": 2, "top_p": 0.6}, {3}),
    ({"top_p": 1.0}, {1, 2, 3, 4}),
])  # fmt: skip
def test_top_k_and_top_p(cut, allowed):
    """Of (.05, .30, .45, .20) the fewest that reach p; after top-k 2, .45 is .6 of what is left."""
    rule = table({}, (0, 0.05, 0.30, 0.45, 0.20))
    found = find(rule, list(range(300)), SearchSettings(sample=True, max_length=1, **cut))
    assert {h[0].ids[0] if h[0].ids else END for h in found} == allowed


def test_draws_depend_on_seed_and_number_only():
    rule = random_rule(choices=9, source=2, seed=4)

    def ids(seed, items, indices):
        settings = SearchSettings(sample=True, beam=3, n_best=3, max_length=6, seed=seed)
        return [[h.ids for h in item] for item in find(rule, items, settings, indices=indices)]

    assert ids(1, [5, 5], [0, 1]) == ids(1, [5, 5], [0, 1])
    assert ids(1, [5], [1])[0] == ids(1, [5, 5], [0, 1])[1] != ids(1, [5], [0])[0]
    assert ids(1, [5], [0]) != ids(2, [5], [0])


def test_equal_draws_are_listed_once():
    [found] = find(table({}, (0, 0.5, 0.5)), [0], SearchSettings(sample=True, beam=20, n_best=20, max_length=1))
    assert sorted((h.ids, h.finished) for h in found) == [([], True), ([2], False)]
