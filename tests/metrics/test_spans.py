"""Exact match and F1 of answers, by hand."""

import pytest

from regard.metrics.spans import counted, exact, f1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  Cat, a hat!", ["cat", "hat"]),
        ("An apple-pie", ["applepie"]),  # a mark joins what it stood between, as SQuAD's own normalization has it
        ("U.S.A.", ["usa"]),
        ("theatre and", ["theatre", "and"]),
        ("“Zoë”", ["“zoë”"]),  # marks beyond ASCII count
        ("北京，中国。", ["北", "京", "中", "国"]),
        ("a an the", []),
        ("", []),
    ],
)
def test_the_words_that_count(text, words):
    assert counted(text) == words


def test_by_hand():
    right = ["the Denver Broncos", "Broncos"]
    assert exact("Denver Broncos!", right) and exact("broncos", right) and not exact("Denver", right)
    assert f1("Denver", right) == pytest.approx(2 / 3)  # 1 of 1 and 1 of 2 against the first; 0 against the second
    assert f1("the big Broncos team", right) == pytest.approx(0.5)  # 1 of 3 and 1 of 1 against the second
    assert f1("a a b", ["b b c"]) == pytest.approx(2 / 4)  # "a" does not count: b against b b c
    assert f1("go go stop", ["go stop stop"]) == pytest.approx(2 / 3)  # each word as often as both have it
    assert f1("北京市", ["北京"]) == pytest.approx(4 / 5)


def test_no_answer_is_right_only_where_there_is_none():
    assert exact("", []) and f1("", []) == 1.0
    assert not exact("", ["x"]) and f1("", ["x"]) == 0.0
    assert not exact("x", []) and f1("x", []) == 0.0
    assert exact("the", ["a"]) and f1("the", ["a"]) == 1.0  # both are nothing, as the official script has it
