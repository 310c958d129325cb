"""The words that errors share."""

import pytest

from regard.data.algorithms.problem import read_rows
from regard.data.classification.labelled import Labelled, labels_of
from regard.data.pairs.pharaoh import parse_pharaoh
from regard.data.reading.babi import Story, StoryLine
from regard.data.reading.questions import questions_of
from regard.data.reading.story_batches import StoryVocabulary
from regard.data.tagging.conllu import TaggedSentence
from regard.data.text.units import normalize
from regard.errors import DataError, a_few, cut, nearest, quoted
from regard.tasks.classification.data import numbered
from regard.tasks.tagging.data import Tags

LONG = "x" * 5000


def test_what_is_quoted_is_cut_and_says_so():
    assert quoted("it's") == '"it\'s"' and quoted("a\nb") == "'a\\nb'"
    assert quoted("x" * 60) == repr("x" * 60)
    assert quoted("x" * 61) == repr("x" * 59 + "…")
    assert quoted(LONG, 5) == "'xxxx…'"


@pytest.mark.parametrize(
    "given, shown",
    [
        (None, "None"),
        (0.5, "0.5"),
        ({"a": "\x1b"}, "{'a': '\\x1b'}"),
        (list(range(50)), repr(list(range(50)))[:59] + "…"),
    ],
)
def test_what_is_no_text_is_quoted_as_it_is_written(given, shown):
    assert quoted(given) == shown


@pytest.mark.parametrize(
    "text, most, shown",
    [
        ("ab", 2, "ab"),
        ("abc", 2, "a…"),
        ("abc", 1, "…"),
        ("", 1, ""),
        ("ae\u0301b", 3, "a…"),  # a letter keeps its accent, or goes with it
        ("ae\u0301bc", 4, "ae\u0301…"),
        ("a👩\u200d👩\u200d👧b", 5, "a…"),
        ("🇫🇷🇩🇪", 3, "🇫🇷…"),
        ("e" + "\u0301" * 99, 3, "e\u0301…"),  # more marks than fit
        ("שלום עולם", 5, "שלום…"),
        ("注意力机制", 3, "注意…"),
    ],
)
def test_a_text_is_cut_between_what_a_reader_takes_for_characters(text, most, shown):
    assert cut(text, most) == shown and len(shown) <= most


@pytest.mark.parametrize("hostile", ["\u202eabc", "\x1b[31mred", "a\x00", "\ud800", "a\u2028b", "\u200d"])
def test_what_is_quoted_does_nothing_to_a_terminal(hostile):
    assert quoted(hostile).isprintable() and quoted(hostile * 99).isprintable() and a_few([hostile] * 9).isprintable()


def test_a_few_are_named_and_the_rest_counted():
    assert a_few([]) == "" and a_few(["a"]) == "'a'" and a_few(list("abcde")) == "'a', 'b', 'c', 'd', 'e'"
    assert a_few(list("abcdef")) == "'a', 'b', 'c', 'd', 'e' and 1 more"
    assert a_few(["x" * 41] * 3000, 2) == f"'{'x' * 39}…', '{'x' * 39}…' and 2,998 more"


def test_thousands_of_unknown_tags_are_a_short_message():
    tags = Tags([f"known {number}" for number in range(3000)], {}, "known 0")
    words = tuple(f"word {number}" for number in range(4000))
    sentence = TaggedSentence(words, tuple(f"tag {number:04}" for number in range(4000)), "trees, line 7")
    told = tags.unseen([sentence])
    assert told is not None and len(told) < 1200
    assert told.startswith(
        "4000 words have a tag that does not occur in training ('tag 0000', 'tag 0001', 'tag 0002', 'tag 0003', "
        "'tag 0004' and 3,995 more); trees, line 7: the tag 'tag 0000'."
    )
    assert told.endswith(" and 2,940 more.")


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_rows([LONG], 3),
        lambda: normalize(LONG + "\ud800"),
        lambda: parse_pharaoh(LONG, first=0),
        lambda: labels_of([Labelled("a", LONG, "it")]),
        lambda: numbered([Labelled("a", LONG, "it")], ["b"]),
        lambda: StoryVocabulary((), ("b",)).number(LONG, "it"),
        lambda: questions_of(Story((StoryLine("A went."), StoryLine("Where is A?", True, LONG)), "it")),
    ],
)
def test_a_long_text_is_cut_in_an_error(read):
    with pytest.raises(DataError, match="'x{59}…'"):
        read()


def test_the_nearest_name_is_reported():
    assert nearest("lstn", ["lstm", "gru"]) == " Did you mean 'lstm'? Known: gru, lstm."
    assert nearest("7", map(str, range(60))).endswith(", 8, 9.") and "more" not in nearest("7", map(str, range(60)))
    assert nearest("x", map(str, range(1061))).endswith(" and 1,001 more.")
