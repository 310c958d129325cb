"""One result for each item, in order, whatever the chunks and batches."""

from itertools import count, islice

import pytest

from regard.decoding.batches import in_order
from regard.errors import ShapeError

LINES = ["", "bbbbb", "", "dd", "e", "", "", "hhhhhhh", "ii", "jjj"]  # B28: lines 1, 3, 6 and 7 are empty


@pytest.mark.parametrize("chunk", [1, 3, 4, 100, None])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_line_by_line(chunk, size):
    """B28: past the chunk size squared too; empty in, empty out; the model never sees an empty line."""
    lines = [f"{line}{turn % 10}" if line else "" for turn in range(3) for line in LINES]
    seen = []

    def copy(batch):
        assert 0 < len(batch) <= size and all(batch)
        seen.append([len(line) for line in batch])
        return [line.upper() for line in batch]

    assert list(in_order(lines, len, size, copy, empty=lambda line: line, chunk=chunk)) == [x.upper() for x in lines]
    assert all(lengths == sorted(lengths, reverse=True) for lengths in seen)


@pytest.mark.parametrize("lines", [["a b", "", "c"], [""], [], ["\n"]])
def test_odd_files(lines):
    """B29: an empty line in the middle, only an empty line, no line at all."""
    results = in_order(
        lines, lambda line: len(line.split()), 2, lambda b: [x.upper() for x in b], empty=lambda line: ""
    )
    assert list(results) == [line.upper().strip() for line in lines]


def test_a_stream_without_end():
    stream = in_order(count(1), lambda n: n, 2, lambda batch: [n * n for n in batch], empty=lambda n: n, chunk=3)
    assert list(islice(stream, 7)) == [1, 4, 9, 16, 25, 36, 49]


def test_lost_results_are_an_error():
    with pytest.raises(ShapeError, match="batch of 2 items gave 1"):
        list(in_order(["a", "b"], len, 2, lambda batch: batch[:1], empty=str))
    with pytest.raises(ValueError, match="at least 1"):
        list(in_order(["a"], len, 0, list, empty=str))
