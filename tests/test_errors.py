"""The words that errors share."""

import pytest

from regard.data.algorithms.problem import read_rows
from regard.data.babi import Line, Story
from regard.data.labelled import Labelled, labels_of
from regard.data.pharaoh import parse_pharaoh
from regard.data.questions import questions_of
from regard.data.story_batches import Vocabulary
from regard.data.units import normalize
from regard.errors import DataError, nearest, quoted
from regard.tasks.classification_data import numbered

LONG = "x" * 5000


def test_what_is_quoted_is_cut_and_says_so():
    assert quoted("it's") == '"it\'s"' and quoted("a\nb") == "'a\\nb'"
    assert quoted("x" * 60) == repr("x" * 60)
    assert quoted("x" * 61) == repr("x" * 59 + "…")
    assert quoted(LONG, 5) == "'xxxx…'"


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_rows([LONG], 3),
        lambda: normalize(LONG + "\ud800"),
        lambda: parse_pharaoh(LONG, first=0),
        lambda: labels_of([Labelled("a", LONG, "it")]),
        lambda: numbered([Labelled("a", LONG, "it")], ["b"]),
        lambda: Vocabulary((), ("b",)).number(LONG, "it"),
        lambda: questions_of(Story((Line("A went."), Line("Where is A?", True, LONG)), "it")),
    ],
)
def test_a_long_text_is_cut_in_an_error(read):
    with pytest.raises(DataError, match="'x{59}…'"):
        read()


def test_the_nearest_name_is_told():
    assert nearest("lstn", ["lstm", "gru"]) == " Did you mean 'lstm'? Known: gru, lstm."
