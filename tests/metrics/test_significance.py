"""Paired tests: values by hand, and by sacreBLEU's own command line numbers."""

import os
import random

import pytest

from regard.errors import ConfigError, DataError
from regard.metrics.significance import holm, paired
from regard.metrics.text import bleu, chrf


def lines(count, wrong, seed=0):
    """References of seven words, and outputs in which a word of each of the first `wrong` lines is another."""
    draw = random.Random(seed)
    references = [" ".join(draw.choice("abcdefghijklm") * 3 for _ in range(7)) for _ in range(count)]
    outputs = [line.replace(line.split()[3], "zzz", 1) if at < wrong else line for at, line in enumerate(references)]
    return references, outputs


def test_holms_procedure_by_hand():
    """.01 · 4, .03 · 3, .04 · 2 = .08 raised to the .09 before it, .5 · 1; and 1 at most."""
    assert holm([0.04, 0.01, 0.5, 0.03]) == pytest.approx([0.09, 0.04, 0.5, 0.09])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02] and holm([]) == []


@pytest.mark.parametrize("test", ["bootstrap", "ar"])
def test_a_large_difference_is_significant_and_none_is_not(test):
    """Where all samples but none reach the difference p is 1 / (samples + 1); where the systems are one, p is high."""
    references, worse = lines(47, 40)
    measures, signatures = paired([worse, references, worse], references, test=test, samples=79)
    for name, whole in (("bleu", bleu), ("chrf", chrf)):
        first, perfect, same = measures[name]
        assert first.value == whole(worse, references).value and perfect.value == pytest.approx(100)
        assert first.p is None and first.adjusted is None and not first.significant
        assert perfect.p == pytest.approx(1 / 80) and perfect.adjusted == pytest.approx(2 / 80)
        assert perfect.significant and not same.significant and same.value == first.value
        assert first.low < first.value < first.high and perfect.low == perfect.high == pytest.approx(100)
        assert same.p == same.adjusted == 1  # alone, the scorer would call what is the same significantly different
    assert ("ar:79" if test == "ar" else "bs:79") in signatures["bleu"] and "seed:12345" in signatures["bleu"]


@pytest.mark.parametrize(("wrong", "least"), [(1, 1), (2, 1 / 2), (4, 1 / 8)])
def test_systems_that_differ_in_few_sentences_differ_by_chance(wrong, least):
    """Swapping none or all of k sentences gives the same difference: p is 2 / 2^k or more, by no seed's luck."""
    references, outputs = lines(17, wrong)
    measures, _ = paired([references, outputs], references, test="ar", samples=41)
    for entries in measures.values():
        assert least <= entries[1].p <= 1 and not entries[1].significant


def test_the_seed_decides_and_the_environment_is_left_alone(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    references, worse = lines(23, 9)
    _, other = lines(23, 3)
    one, again, two = (paired([worse, other], references, samples=53, seed=seed)[0] for seed in (5, 5, 6))
    assert one == again != two
    assert os.environ["SACREBLEU_SEED"] == "7"


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match="at least two systems"):
        paired([["a"]], ["a"])
    with pytest.raises(DataError, match=r"systems of \[1, 2\] lines and 1 references"):
        paired([["a"], ["a", "b"]], ["a"])
    with pytest.raises(DataError, match="no sentences"):
        paired([[], []], [])
    with pytest.raises(ConfigError, match="at least 40 samples"):
        paired([["a"], ["b"]], ["a"], samples=3)
