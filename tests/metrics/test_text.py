"""BLEU, chrF, exact match and perplexity: values by hand, and files that are empty, odd or do not fit."""

import math

import pytest

from regard.errors import DataError
from regard.metrics.perplexity import perplexity
from regard.metrics.text import bleu, chrf, exact_match


def test_bleu_by_hand():
    # One word too many: precisions 6/7, 5/6, 4/5, 3/4, so their geometric mean is (3/7)^(1/4).
    longer = bleu(["the cat sat on the mat today"], ["the cat sat on the mat"])
    assert longer.value == pytest.approx(100 * (3 / 7) ** 0.25, abs=1e-6)
    # Two words short: all precisions 1, brevity exp(1 − 6/4).
    assert bleu(["the cat sat on"], ["the cat sat on the mat"]).value == pytest.approx(100 * math.exp(-0.5), abs=1e-6)
    assert longer.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert str(longer).startswith("80.9 (nrefs:1")


def test_bleu_sums_over_lines_and_takes_several_references():
    """Corpus BLEU is not a mean: 4 + 4 words, one line perfect, the other with nothing right; 1-grams 4/8 and so on."""
    value = bleu(["a b c d", "x x x x"], ["a b c d", "e f g h"]).value
    assert value == pytest.approx(100 * (4 / 8 * 3 / 6 * 2 / 4 * 1 / 2) ** 0.25, abs=1e-6)
    two = bleu(["a b c d"], [["e f g h"], ["a b c d"]])
    assert two.value == pytest.approx(100) and two.signature.startswith("nrefs:2")


def test_chinese_is_cut_into_characters():
    """Four of five characters: all precisions 1, brevity exp(1 − 5/4). As one word it would be 0."""
    measured = bleu(["我爱北京"], ["我爱北京天"], language="zh")
    assert measured.value == pytest.approx(100 * math.exp(-0.25), abs=1e-6) and "tok:zh" in measured.signature
    assert bleu(["我爱北京"], ["我爱北京天"]).value == 0.0
    assert bleu(["我爱"], ["我爱"], language="zh-CN").signature == bleu([""], ["我"], language="zh").signature


def test_case():
    assert bleu(["A B C D"], ["a b c d"], lowercase=True).value == pytest.approx(100)
    assert bleu(["A B C D"], ["a b c d"]).value == 0.0


def test_chrf_by_hand():
    """ "ab" for "abc": precision 1 and 1, recall 2/3 and 1/2, so F2 of 1 and 7/12 is 5·(7/12) / (4 + 7/12)."""
    measured = chrf(["ab"], ["abc"])
    assert measured.value == pytest.approx(100 * 5 * (7 / 12) / (4 + 7 / 12), abs=1e-6)
    assert "nc:6|nw:0" in measured.signature and "nw:2" in chrf(["ab"], ["abc"], word_order=2).signature


@pytest.mark.parametrize("measure", [bleu, chrf])
def test_empty_lines_and_files(measure):
    """B29: an empty output scores 0 and is no crash, also beside others; an empty file is fine."""
    assert measure([""], ["a b c d"]).value == 0.0
    assert measure(["a b", "", "c"], ["a b", "", "c"]).count == 3
    assert measure([""], [""]).value == 0.0
    nothing = measure([], [])
    assert (nothing.value, nothing.count) == (0.0, 0) and nothing.signature == measure(["a"], ["a"]).signature


def test_exact_match():
    assert exact_match(["a", "b ", "", "D"], ["a", "b", "", "d"]).value == 0.5
    assert exact_match([], []).value == 0.0
    assert str(exact_match(["a"], ["a"])) == "1.000"


@pytest.mark.parametrize("measure", [bleu, chrf, exact_match])
def test_lost_lines_are_an_error(measure):
    with pytest.raises(DataError, match="1 outputs and 2 references"):
        measure(["a"], ["a", "b"])


def test_perplexity():
    """Four tokens, three of probability 1/8 and one of 1/2: exp of the mean."""
    assert perplexity(3 * math.log(8) + math.log(2), 4) == pytest.approx((8 * 8 * 8 * 2) ** 0.25)
    assert perplexity(0.0, 5) == 1.0
    assert perplexity(1e6, 1) == math.inf
    with pytest.raises(DataError, match="at least one token; 0"):
        perplexity(0.0, 0)
