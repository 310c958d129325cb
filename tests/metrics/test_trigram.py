"""Gaps filled by trigrams: equal to the formula written out over dictionaries."""

from collections import Counter

import numpy as np
import pytest

from regard.data.chance import Chance
from regard.errors import DataError
from regard.metrics.trigram import Trigrams


class Plain:
    """Witten and Bell's method C, one probability at a time."""

    def __init__(self, text, size):
        self.size, self.text = size, text
        self.grams = [Counter(zip(*(text[at:] for at in range(n)), strict=False)) for n in (1, 2, 3)]

    def p(self, word, *history):
        if not history:
            counts = self.grams[0]
            return (counts[(word,)] + len(counts) / self.size) / (len(self.text) + len(counts))
        followers = {gram: n for gram, n in self.grams[len(history)].items() if gram[:-1] == history}
        lower, total, kinds = self.p(word, *history[1:]), sum(followers.values()), len(followers)
        return (followers.get((*history, word), 0) + kinds * lower) / (total + kinds) if total else lower

    def fill(self, a, b, c, d):
        scores = [self.p(w, a, b) * self.p(c, b, w) * self.p(d, w, c) for w in range(self.size)]
        return np.array(scores)


def test_equals_the_formula():
    chance, size = Chance("trigrams"), 7
    text = [chance.below(6) if chance() < 0.6 else at % 3 for at in range(97)]  # id 6 never occurs
    counted, plain = Trigrams(np.array(text), size), Plain(text, size)
    for _ in range(60):
        a, b, c, d = (chance.below(size) for _ in range(4))
        np.testing.assert_allclose(counted.fill((a, b), (c, d)), plain.fill(a, b, c, d), rtol=1e-12)


def test_by_hand():
    """In "0 1 2 0 1 3 0 1 2": after 0 1 comes 2 twice, 3 once; before 0 1 from the right stands what is asked."""
    text = np.array([0, 1, 2, 0, 1, 3, 0, 1, 2])
    trigrams = Trigrams(text, 4)
    # p(2 | 0 1) = (2 + 2 · p(2 | 1)) / (3 + 2), p(2 | 1) = (2 + 2 · p(2)) / (3 + 2), p(2) = (2 + 4/4) / (9 + 4)
    p2 = 3 / 13
    assert trigrams._of_last(0, 1)[2] == pytest.approx((2 + 2 * (2 + 2 * p2) / 5) / 5)
    assert int(trigrams.fill((0, 1), (0, 1)).argmax()) in (2, 3)
    np.testing.assert_allclose([trigrams._of_last(a, b).sum() for a in range(4) for b in range(4)], 1)


def test_too_short():
    with pytest.raises(DataError, match="no trigram"):
        Trigrams(np.array([1, 2]), 4)
