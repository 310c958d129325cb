"""The user's own numbers: what is computed with them, and what is said when they do not fit."""

import math

import pytest

from regard.errors import ConfigError
from regard.worked import work
from regard.worked.example import Claim


def test_own_scores():
    own = "1, 2, 3, 4, 5, 6, 7"
    result = work("W2", {"scores": own})
    total = math.fsum(math.exp(score) for score in range(1, 8))
    assert result.value("weights") == pytest.approx([math.exp(score) / total for score in range(1, 8)], rel=1e-12)
    assert result.own == {"scores"}


def test_own_numbers_are_not_compared_with_the_literature():
    own = work("W2", {"scores": "1, 2, 3, 4, 5, 6, 7"})
    assert [step.agrees for step in own.steps] == [None] * len(own.steps)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("W1", {"query": "0.5,-2", "keys": "1,2;3,4", "values": "1;7", "second": "3,1", "output": "2;5"}),
        ("W4", {"scores": "1, 2, 3; 4, 5, 6", "length": "2", "source": "a, b", "target": "c, d"}),
        ("W7", {"numbers": "3, 3, -1, 100"}),
        ("W10", {"tokens": "1e3, 3; -7, 2.5; 11, 13", "order": "2, 3, 1"}),
        ("W13", {"x": "0.1, 0.7", "query": "3, -2, 11", "left": "0.3, 0.9", "right": "0.1, 0.2, 0.7"}),
        ("W14", {"query": "1e3, 0.1, 2", "inputs": "1e3, 5, 7"}),
        ("W15", {"queries": "1;2;3", "keys": "0.1; 0.2", "values": "1e3, 2, 3; 5, 7, 11"}),
        ("W17", {"scores": "1, 2, 3, 5, 7", "center": "2", "radius": "2"}),
        ("W20", {"query": "1e3, 2", "key": "3, 1e3", "m": "100003", "n": "7", "offset": "99991"}),
        ("W22", {"queries": "1; 2; 3", "inputs": "1; -1"}),
    ],
)
def test_identities_hold_for_any_numbers(name, options):
    checks = [step.check for step in work(name, options).steps if step.check is not None]
    assert checks and all(isinstance(check, Claim) and check.always and check.holds for check in checks)


def test_a_whole_number_centre_keeps_both_edges():
    result = work("W17", {"scores": "0, 0, 0, 0, 0, 0, 0", "center": "3", "radius": "2"})
    assert result.value("softmax over the window alone") == pytest.approx([0, 0.2, 0.2, 0.2, 0.2, 0.2, 0], abs=1e-15)


@pytest.mark.parametrize(
    "text", ["0.3,2.8,0.2,0.1,0.1,0,0.6", "0.3 2.8 0.2 0.1 0.1 0 0.6", "0.3，2.8、0.2,.1,.1,0,6e-1"]
)
def test_ways_to_write_a_list(text):
    assert work("W2", {"--scores": text}).value("weights") == pytest.approx(work("W2").value("weights"), rel=1e-12)


def test_names_and_ids_as_people_type_them():
    assert work("w19", {"--entry": "2"}).value("exact look-up") == [0, 10]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("W99", {}, ["no worked example is named 'W99'", "W1, W10"]),
        ("W2", {"score": "1"}, ["no input --score.", "Did you mean 'scores'?", "words"]),
        ("W6", {"query": "1, two, 3"}, ["--query has 'two', which is not a number", "'1, 2, 3'"]),
        ("W6", {"query": "1, nan, 3"}, ["--query has 'nan'", "finite"]),
        ("W6", {"query": "1e308, 2, 3"}, ["--query has 1e308; the most allowed is 1000"]),
        ("W1", {"values": "-1e9, 2; 3, 4; 5, 6"}, ["--values has -1e9; the least allowed is -1000"]),
        ("W6", {"query": ""}, ["--query is empty"]),
        ("W6", {"query": "1, 2; 3, 4"}, ["--query is one list"]),
        (
            "W6",
            {"query": "1, 2"},
            ["--query has 2 numbers and --key has 3 numbers", "--key was not given, so give it too"],
        ),
        ("W2", {"scores": "1, 2"}, ["--scores has 2 numbers and --values has 7", "--words has 7 words"]),
        ("W1", {"keys": "0, 0.9, 0.4"}, ["--query has 1 number and --keys has 3 numbers per row", "rows by ';'"]),
        ("W1", {"values": "1, 2; 3"}, ["--values has rows of different lengths (2, 1)"]),
        ("W1", {"values": "1, 2, 3; 4, 5, 6; 7, 8, 9"}, ["--output has 4 rows; expected 6"]),
        ("W3", {"width": "6.5"}, ["--width has 6.5; expected whole numbers"]),
        ("W3", {"width": "6, 7"}, ["--width expects one number such as 64, got 2"]),
        ("W3", {"width": "0"}, ["--width has 0; the least allowed is 1"]),
        ("W4", {"length": "9"}, ["--length is 9, but --scores has only 5", "--source has 3 words, expected 9"]),
        ("W4", {"slots": "4"}, ["--slots is 4, expected at least 5"]),
        ("W8", {"factor": "1.5"}, ["--factor has 1.5; the most allowed is 1"]),
        ("W10", {"order": "1, 1, 2, 3"}, ["--order must hold each of 1 to 4 once"]),
        ("W10", {"order": "1, 2, 3, 4"}, ["leaves every token in place"]),
        ("W10", {"tokens": "1; 2; 3; 5"}, ["width 1; expected an even one"]),
        ("W11", {"exponent": "0.5"}, ["--exponent has 0.5; the least allowed is 1"]),
        ("W17", {"center": "12"}, ["--center is 12, expected between 0 and 10"]),
        ("W17", {"radius": "0"}, ["--radius is 0, expected more than 0"]),
        ("W19", {"entry": "4"}, ["--entry is 4, expected 1 to 3"]),
        ("W20", {"query": "1, 2, 3", "key": "4, 5, 6"}, ["expected an even count"]),
        ("W21", {"shift": "1, 0"}, ["--shift has 2 numbers, expected 3"]),
    ],
)
def test_errors_say_what_was_expected(name, options, expected):
    with pytest.raises(ConfigError) as error:
        work(name, options)
    for part in expected:
        assert part in str(error.value)


def test_all_errors_come_at_once():
    with pytest.raises(ConfigError) as error:
        work("W21", {"gate": "2", "shift": "1", "colour": "red", "erase": "x"})
    message = str(error.value)
    assert all(
        part in message for part in ("--gate has 2", "--shift has 1 number,", "no input --colour", "--erase has 'x'")
    )
