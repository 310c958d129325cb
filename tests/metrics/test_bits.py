"""Wrong bits of answers, by hand."""

import pytest

from regard.errors import DataError
from regard.metrics.bits import BitErrors


def test_by_hand():
    errors = BitErrors([0, 3, 0, 1], [8, 16, 8, 24])
    assert (errors.mean, errors.median, errors.exact, errors.chance) == (1.0, 0.5, 0.5, 7.0)
    assert BitErrors([2, 0, 5], [8, 8, 8]).median == 2


def test_nothing_has_no_mean():
    with pytest.raises(DataError, match="0 counts of wrong bits"):
        BitErrors([], [])
    with pytest.raises(DataError, match="1 counts of wrong bits for 2"):
        BitErrors([1], [1, 2])
