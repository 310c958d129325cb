"""The native path: which calls are large enough for the loop."""

import pytest

from regard.kernels.dot import dot


@pytest.mark.parametrize(
    ("sizes", "dropout", "worthwhile"),
    (
        ((1, 8, 512, 512), 0.0, True),
        ((12, 4, 64, 64), 0.0, True),
        ((1, 1, 64, 64), 0.0, False),  # too little
        ((512, 8, 1, 50), 0.0, False),  # packing the keys costs more than one query gains
        ((64, 4, 30, 30), 0.0, False),
        ((64, 4, 30, 30), 0.1, True),
    ),
)
def test_small_calls_are_left_to_torch(sizes, dropout, worthwhile):
    assert dot.is_worthwhile(sizes, dropout) is worthwhile
