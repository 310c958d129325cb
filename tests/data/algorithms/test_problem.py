"""Problems with a known answer: right values, sequences by number, and questions that people write."""

import itertools

import numpy as np
import pytest
import torch

from regard.data.algorithms.problem import problem
from regard.data.algorithms.sequences import SequenceBatch, Sequences
from regard.data.algorithms.settings import CopySettings, PrioritySortSettings, RecallSettings, RepeatCopySettings
from regard.data.chance import Chance
from regard.errors import ConfigError, DataError

COPY = CopySettings(problem="copy", bits=3, longest=5, sequences=7, batch=3)
REPEAT = RepeatCopySettings(problem="repeat_copy", bits=3, repeats=5)
RECALL = RecallSettings(problem="recall", bits=2, rows=2, longest=5)
SORT = PrioritySortSettings(problem="priority_sort", bits=2)
ALL = [COPY, REPEAT, RECALL, SORT]


def test_copy_by_hand():
    copy = problem(COPY)
    item = copy.read("011 100")
    assert item.question.tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    assert item.answer.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert item.length == 2 and copy.write(item.answer) == "011 100" and copy.sources(item) == [0, 1]
    assert copy.rows(item) == ["011", "100", "?"]


def test_repeat_copy_by_hand():
    """The number of times has mean 0 and variance 1 over 1 … 5: its deviation is √2."""
    repeat = problem(REPEAT)
    item = repeat.read("2 011 100")
    assert item.question.shape == (3, 5) and item.question[2].tolist() == pytest.approx([0, 0, 0, 1, -1 / 2**0.5])
    assert repeat.write(item.answer) == "011 100 011 100 end"
    assert item.answer[-1].tolist() == [0, 0, 0, 1]
    assert repeat.sources(item) == [0, 1, 0, 1, None] and repeat.rows(item)[-1] == "× 2 ?"


def test_recall_by_hand():
    recall = problem(RECALL)
    item = recall.read("01 11 | 00 01 | 10 10 ? 00 01")
    assert recall.rows(item) == ["|", "01", "11", "|", "00", "01", "|", "10", "10", "?", "00", "01", "?"]
    assert recall.write(item.answer) == "10 10" and recall.sources(item) == [7, 8] and item.length == 3


def test_priority_sort_by_hand():
    """The highest four of five, highest first; of equal ones the first given."""
    sort = problem(SORT)
    item = sort.read("0.5:01 -1:00 0.9:11 0.5:10 0:01")
    assert sort.write(item.answer) == "11 01 10 01" and sort.sources(item) == [2, 0, 3, 4]
    assert item.question[:, 2].tolist() == pytest.approx([0.5, -1, 0.9, 0.5, 0, 0])
    assert len(sort.draw(Chance(1), 20).answer) == 16  # as in the paper


def test_how_many_times_is_a_number_that_can_be_said_k13():
    repeat = problem(REPEAT)
    assert len(repeat.read("9999 011").answer) == 10_000
    for given, shown in (("0", "'0'"), ("10000", "'10000'"), ("9" * 5000, "'9{39}…'"), ("x", "'x'")):
        with pytest.raises(DataError, match=f"starts with {shown}; expected how many times .*, 1 to 9999"):
            repeat.read(f"{given} 011")


@pytest.mark.parametrize("settings", ALL, ids=lambda settings: settings.problem)
def test_drawn_questions_are_their_own_answer(settings):
    """Every answer row stands in the question where `sources` says, and the widths are the promised ones."""
    made = problem(settings)
    for number, length in itertools.product(range(5), (settings.shortest, settings.longest)):
        item = made.draw(Chance("test", number), length)
        assert item.question.shape[1] == made.inputs and item.answer.shape[1] == made.outputs and item.length == length
        for row, place in zip(item.answer, made.sources(item), strict=True):
            if place is not None:
                assert np.array_equal(row[: settings.bits], item.question[place, : settings.bits])
        assert len(made.rows(item)) == len(item.question)


@pytest.mark.parametrize("settings", ALL, ids=lambda settings: settings.problem)
def test_a_number_makes_its_sequence_k9(settings):
    """K9, B33: batches depend on their arguments alone, whatever was asked for before."""
    one, other = (Sequences(problem(settings), settings, 3, "training") for _ in range(2))
    other.load([5, 1])
    for name in ("inputs", "answers", "answer_steps"):
        assert torch.equal(getattr(one.load([4, 9]), name), getattr(other.load([4, 9]), name))
    elsewhere = Sequences(problem(settings), settings, 3, "test"), Sequences(problem(settings), settings, 4, "training")
    for others in elsewhere:
        assert any(not np.array_equal(one.item(n, 4).question, others.item(n, 4).question) for n in range(3))


def test_sequences_of_a_seed_stay_the_same():
    """Written down in November 2026: a resumed run and an old recipe must find the same ones."""
    sequences = Sequences(problem(COPY), COPY, 0, "training")
    assert [sequences.problem.write(sequences.item(number).answer) for number in (0, 1, 12)] == [
        "111 000 011 110 001",
        "010",
        "111 101 000 111 100",
    ]


def test_every_epoch_has_new_sequences():
    sequences = Sequences(problem(COPY), COPY, 0, "training")
    assert sequences.plan(0) == [[0, 1, 2], [3, 4, 5], [6]]
    assert sequences.plan(2) == [[14, 15, 16], [17, 18, 19], [20]]
    lengths = [sequences.item(number).length for number in range(200)]
    assert set(lengths) == {1, 2, 3, 4, 5} and min(map(lengths.count, lengths)) > 20


def test_a_batch_has_zeros_behind_its_shorter_sequences_k6():
    copy = problem(COPY)
    batch = SequenceBatch.of([copy.read("011"), copy.read("100 111")])
    assert batch.inputs.shape == (2, 5, 4) and batch.lengths == [1, 2]
    assert batch.answer_steps.tolist() == [[False, False, True, False, False], [False, False, False, True, True]]
    assert batch.answers[0].tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert batch.inputs[0, 2:].abs().sum() == 0


@pytest.mark.parametrize(
    "settings, text, told",
    [
        (COPY, "", "no rows"),
        (COPY, "011 10", "row 2 is '10'; expected 3 bits"),
        (COPY, "011 1２0", "row 2"),
        (REPEAT, "x 011", "starts with 'x'"),
        (REPEAT, "0 011", "starts with '0'"),
        (RECALL, "01 11 | 00 01", "no question"),
        (RECALL, "01 11 | 00 ? 01 11", "item 2 has 1 rows; expected 2"),
        (RECALL, "01 11 | 00 01 ? 00 01", "none of those before the last"),
        (RECALL, "01 11 | 00 01 | 01 11 ? 01 11", "more than once"),
        (SORT, "01", "row 1 is ''"),
        (SORT, "2:01", "row 1 has the priority '2'"),
        (SORT, "nan:01", "row 1 has the priority 'nan'"),
    ],
)
def test_what_is_no_question_is_reported(settings, text, told):
    with pytest.raises(DataError, match=told):
        problem(settings).read(text)


def test_settings_that_cannot_be_are_reported():
    with pytest.raises(ValueError, match="must not be above longest"):
        CopySettings(problem="copy", shortest=5, longest=3)
    with pytest.raises(ValueError, match="too few to be told apart"):
        RecallSettings(problem="recall", bits=1, rows=1)
    with pytest.raises(ConfigError, match="at least 2"):
        problem(RECALL).draw(Chance(0), 1)
