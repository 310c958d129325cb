"""Count and recall: what is asked and answered, by hand; counts that are even; errors that say what stands there."""

from collections import Counter

import numpy as np
import pytest

from regard.data.algorithms.problem import problem
from regard.data.algorithms.settings import CountAndRecallSettings
from regard.data.chance import Chance
from regard.errors import ConfigError, DataError

SMALL = problem(CountAndRecallSettings(problem="count_and_recall", key_bits=5, value_bits=2, most=3))


def test_a_stream_by_hand():
    item = SMALL.read("00001:10 00111:00 00001:01 ? 00001 00111")
    assert item.question.tolist() == [
        [0, 0, 0, 0, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 1, 0],
        [0, 0, 0, 0, 1, 0, 0, 1],
        [0, 0, 1, 1, 1, 0, 0, 1],
    ]
    assert item.answer.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]  # twice, and then 01; once, and 00
    assert item.length == 3 and item.answer_steps.tolist() == [3, 4]  # answered where they are asked
    assert SMALL.write(item.answer) == "2:01 1:00" and SMALL.sources(item) == [2, 1]
    assert SMALL.rows(item) == ["00001:10", "00111:00", "00001:01", "? 00001", "? 00111"]


def test_every_key_comes_so_often_and_the_answers_are_right():
    counted: Counter[int] = Counter()
    for number in range(60):
        item = SMALL.draw(Chance(number), 11)
        pairs, asked = SMALL.rows(item)[:11], [row.removeprefix("? ") for row in SMALL.rows(item)[11:]]
        again = SMALL.read(" ".join([*pairs, "?", *asked]))
        assert np.array_equal(again.answer, item.answer) and np.array_equal(again.question, item.question)
        keys = Counter(row[:5] for row in pairs)
        assert sum(keys.values()) == 11 and max(keys.values()) <= 3 and len(set(asked)) == len(asked) == 4
        last = dict(row.split(":") for row in pairs)  # a later pair takes an earlier one's place
        assert SMALL.write(item.answer) == " ".join(f"{keys[key]}:{last[key]}" for key in asked)
        counted.update(keys[key] for key in asked)
    assert all(counted[count] > 240 / 6 for count in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("00001:10", "there is no question"),
        ("00001:10 0001:10 ? 00001", "row 2 is '0001'; expected 5 bits"),
        ("00001:1 ? 00001", "row 1 is '1'; expected 2 bits"),
        ("00001:10 ? 00011", "00011 is asked for and comes 0 times; expected 1 to 3"),
        ("00001:10 ?", "there are no rows"),
    ],
)
def test_what_is_no_question_is_reported(text, message):
    with pytest.raises(DataError, match=message):
        SMALL.read(text)


def test_too_few_keys_are_an_error():
    with pytest.raises(ValueError, match="give more key_bits"):
        CountAndRecallSettings(problem="count_and_recall", longest=17, key_bits=5)
    with pytest.raises(ConfigError, match="give more key_bits"):
        SMALL.draw(Chance(0), 97)  # 32 keys three times each are 96
