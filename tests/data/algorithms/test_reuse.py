"""Copy in episodes: the steps at which the answer is said lie between those at which rows are given."""

import numpy as np
import pytest

from regard.data.algorithms.problem import problem
from regard.data.algorithms.sequences import SequenceBatch, Sequences
from regard.data.algorithms.settings import ReuseCopySettings
from regard.errors import DataError

SETTINGS = ReuseCopySettings(problem="reuse_copy", bits=3, rows=2, longest=5)


def test_two_episodes_by_hand():
    made = problem(SETTINGS)
    item = made.read("010 111 | 001")
    assert item.question.tolist() == [
        [0, 1, 0, 1, 0],
        [1, 1, 1, 1, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0],
    ]
    assert item.answer_steps.tolist() == [3, 4, 7] and item.time == 8 and item.length == 2
    assert made.write(item.answer) == "010 111 001" and made.sources(item) == [0, 1, 5]
    assert made.rows(item) == ["010", "111", "?", "", "", "001", "?", ""]
    batch = SequenceBatch.of([item, made.read("111")])
    assert batch.answer_steps.tolist() == [
        [False] * 3 + [True] * 2 + [False] * 2 + [True],
        [False] * 2 + [True] + [False] * 5,
    ]
    assert batch.answers[0, 7].tolist() == [0, 0, 1] and batch.answers[1, 2].tolist() == [1, 1, 1]


def test_every_answer_is_the_rows_of_its_episode():
    drawn = Sequences(problem(SETTINGS), SETTINGS, 0, "training")
    for number in range(20):
        item = drawn.item(number)
        given = item.question[item.question[:, 3] > 0, :3]
        assert np.array_equal(given, item.answer)
        assert not item.question[item.answer_steps].any()
        assert item.question[:, 4].sum() == item.length <= 5


@pytest.mark.parametrize("text", ["", "01", "010 | ", "010 | 21x"])
def test_what_is_written_otherwise_is_reported(text):
    with pytest.raises(DataError, match="episode"):
        problem(SETTINGS).read(text)
