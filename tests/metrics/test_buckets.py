"""Measures by length."""

import pytest

from regard.metrics.buckets import by_length
from regard.metrics.text import exact_match


def test_by_length():
    lengths = [1, 7, 8, 10, 11, 18, 40, 3]
    buckets = by_length(lengths, [1, 8, 11, 14, 18], lambda items: float(sum(items)))
    assert [(str(one), one.count, one.value) for one in buckets] == [
        ("1–7", 3, 8.0), ("8–10", 2, 5.0), ("11–13", 1, 4.0), ("14–17", 0, None), ("18+", 2, 11.0),
    ]  # fmt: skip


def test_lengths_before_the_first_edge():
    """B29: an empty line has length 0 and is measured, not lost."""
    outputs, references = ["", "a", "b"], ["x", "a", "c"]

    def exact(items):
        return exact_match([outputs[item] for item in items], [references[item] for item in items]).value

    buckets = by_length([0, 1, 2], [1, 2], exact)
    assert [(one.low, one.high, one.count, one.value) for one in buckets] == [
        (0, 0, 1, 0.0),
        (1, 1, 1, 1.0),
        (2, None, 1, 0.0),
    ]
    assert str(buckets[0]) == "0"


def test_nothing_and_nonsense():
    assert [(one.count, one.value) for one in by_length([], [1, 5], len)] == [(0, None), (0, None)]
    for edges in ([], [5, 1], [1, 1]):
        with pytest.raises(ValueError, match="ascending"):
            by_length([1], edges, len)
