"""A trigram model that fills a gap from both sides: a baseline for masked language models."""

import numpy as np
import numpy.typing as npt

from regard.errors import DataError

Ids = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


class _Triples:
    """Triples of ids and how often each occurs, found by their first two.

    Args:
        codes: of all triples, each a number in base `size`.
        size: how many ids there are.
    """

    def __init__(self, codes: Ids, size: int) -> None:
        self.codes, self.counts = np.unique(codes, return_counts=True)
        self.size = size

    def after(self, one: int, two: int) -> tuple[Ids, Ids]:
        """The third ids after these two, and how often."""
        code = np.int64(one * self.size + two) * self.size
        first, end = np.searchsorted(self.codes, np.array([code, code + self.size]))
        return self.codes[first:end] % self.size, self.counts[first:end]


class Trigrams:
    """A trigram model of a text, smoothed by Witten and Bell (1991, method C), that fills gaps from both sides.

    The probability of `w` in the gap of `a b _ c d` is proportional to `p(w | a b) · p(c | b w) · p(d | w c)`, all
    factors of a trigram model that involve it. Each `p(z | x y) = (n(x y z) + t(x y) · p(z | y)) / (n(x y) + t(x y))`,
    where n counts how often the words are followed by any, and t by how many different ones; likewise down to
    `p(z | y)`, `p(z)` and one in all words.

    Args:
        stream: the ids of the text that is counted, three or more.
        vocabulary: how many ids there are.

    Raises:
        DataError: the text is too short to have a trigram.
    """

    def __init__(self, stream: Ids, vocabulary: int) -> None:
        if len(stream) < 3:
            raise DataError(f"a text of {len(stream)} tokens has no trigram")
        ids, size = np.asarray(stream, dtype=np.int64), vocabulary
        self.size = size
        counts = np.bincount(ids, minlength=size)
        kinds = np.count_nonzero(counts)
        self._alone = (counts + kinds / size) / (len(ids) + kinds)
        # Pairs in the order of their first id, and that order put by their second.
        pairs, self._pair_counts = np.unique(ids[:-1] * size + ids[1:], return_counts=True)
        self._firsts, self._seconds = pairs // size, pairs % size
        self._by_second = np.lexsort((self._firsts, self._seconds))
        bounds = np.arange(size + 1)
        self._first_from = np.searchsorted(self._firsts, bounds)
        self._second_from = np.searchsorted(self._seconds[self._by_second], bounds)
        self._followed = np.bincount(ids[:-1], minlength=size).astype(np.float64)
        self._followers = np.diff(self._first_from).astype(np.float64)
        # The same triples in the orders of their look-ups: the last of them, the middle one, the first.
        x, y, z = ids[:-2], ids[1:-1], ids[2:]
        self._last = _Triples((x * size + y) * size + z, size)
        self._middle = _Triples((x * size + z) * size + y, size)
        self._first = _Triples((y * size + z) * size + x, size)
        self._pair_followed = self._of_pairs(pairs, x * size + y)
        self._pair_followers = self._of_pairs(pairs, self._last.codes // size)

    def fill(self, before: tuple[int, int], after: tuple[int, int]) -> Numbers:
        """How probable each word is in the gap, up to a constant factor.

        Args:
            before: the two ids before the gap, a and b.
            after: the two ids after it, c and d.
        """
        (a, b), (c, d) = before, after
        return self._of_last(a, b) * self._of_middle(b, c) * self._of_first(c, d)

    def _of_last(self, a: int, b: int) -> Numbers:
        """p(w | a b) of all w."""
        ids, counts = self._last.after(a, b)
        return _mixed(_spread(ids, counts, self.size), counts.sum(), len(ids), self._follows(b))

    def _of_middle(self, b: int, c: int) -> Numbers:
        """p(c | b w) of all w."""
        pairs = slice(self._first_from[b], self._first_from[b + 1])
        words = self._seconds[pairs]
        total = _spread(words, self._pair_followed[pairs], self.size)
        kinds = _spread(words, self._pair_followers[pairs], self.size)
        before = self._by_second[self._second_from[c] : self._second_from[c + 1]]
        counts = _spread(self._firsts[before], self._pair_counts[before], self.size)
        lower = _mixed(counts, self._followed, self._followers, float(self._alone[c]))  # p(c | w)
        return _mixed(_spread(*self._middle.after(b, c), self.size), total, kinds, lower)

    def _of_first(self, c: int, d: int) -> Numbers:
        """p(d | w c) of all w."""
        pairs = self._by_second[self._second_from[c] : self._second_from[c + 1]]
        words = self._firsts[pairs]
        total = _spread(words, self._pair_followed[pairs], self.size)
        kinds = _spread(words, self._pair_followers[pairs], self.size)
        return _mixed(_spread(*self._first.after(c, d), self.size), total, kinds, self._follows(c)[d])

    def _follows(self, b: int) -> Numbers:
        """p(w | b) of all w."""
        pairs = slice(self._first_from[b], self._first_from[b + 1])
        counts = _spread(self._seconds[pairs], self._pair_counts[pairs], self.size)
        return _mixed(counts, self._followed[b], self._followers[b], self._alone)

    @staticmethod
    def _of_pairs(pairs: Ids, codes: Ids) -> Numbers:
        """How many of the codes are each pair."""
        return np.bincount(np.searchsorted(pairs, codes), minlength=len(pairs)).astype(np.float64)


def _spread(ids: Ids, counts: Ids | Numbers, size: int) -> Numbers:
    """Counts beside all ids, 0 where there is none."""
    spread = np.zeros(size)
    spread[ids] = counts
    return spread


def _mixed(counts: Numbers, total: npt.ArrayLike, kinds: npt.ArrayLike, lower: npt.ArrayLike) -> Numbers:
    """Witten and Bell's mixture with the estimate of a shorter history; that alone where nothing was counted."""
    weight = np.add(total, kinds)
    mixed: Numbers = (counts + np.multiply(kinds, lower)) / np.maximum(weight, 1) + np.multiply(weight == 0, lower)
    return mixed
