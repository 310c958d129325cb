"""Alignments: AER by hand, links from weights, pieces to words, baselines, two directions made one."""

import numpy as np
import pytest
import torch

from regard.data.pairs.pharaoh import read_pharaoh
from regard.errors import DataError, ShapeError
from regard.metrics.alignment import alignment_error_rate, alignment_scores
from regard.metrics.links import diagonal, links, merge_to_words, uniform
from regard.metrics.symmetrize import grow_diag, grow_diag_final, grow_diag_final_and, intersection, union
from tests.shared import SHARED

HANSARDS = SHARED / "data" / "gold_alignments" / "hansards"


def test_alignment_error_rate_by_hand():
    """|A| = 3, |S| = 2, |A ∩ S| = 1, |A ∩ P| = 2: AER = 1 − 3/5, precision 2/3, recall 1/2 (Och & Ney 2003)."""
    predicted, sure, possible = {(0, 0), (1, 1), (2, 1)}, {(0, 0), (1, 2)}, {(1, 1)}
    scores = alignment_scores([predicted], [sure], [possible])
    assert scores == pytest.approx((0.4, 2 / 3, 1 / 2, 3, 2))
    assert alignment_error_rate([predicted], [sure], [possible | sure]) == pytest.approx(0.4)  # sure ones are possible
    # Without possible links (1, 1) is wrong too: 1 − (1 + 1) / 5.
    assert alignment_error_rate([predicted], [sure]) == pytest.approx(0.6)
    # Sums over sentences, not a mean of rates: 1 − (1 + 2 + 1 + 1) / (5 + 2).
    assert alignment_error_rate([predicted, {(0, 0)}], [sure, {(0, 0)}], [possible, set()]) == pytest.approx(2 / 7)


@pytest.mark.parametrize(
    "predicted, sure, expected",
    [
        (set(), set(), (0.0, 1.0, 1.0, 0, 0)),
        (set(), {(0, 0)}, (1.0, 1.0, 0.0, 0, 1)),
        ({(0, 0)}, set(), (1.0, 0.0, 1.0, 1, 0)),
        ({(0, 0)}, {(0, 0)}, (0.0, 1.0, 1.0, 1, 1)),
    ],
)
def test_empty_alignments(predicted, sure, expected):
    assert alignment_scores([predicted], [sure]) == expected
    assert alignment_error_rate([], []) == 0.0


def test_lost_sentences_are_an_error():
    with pytest.raises(DataError, match="1 predicted, 2 sure and 2 possible"):
        alignment_error_rate([set()], [set(), set()])


def test_links_from_weights():
    weights = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.0, 0.0, 0.0]], requires_grad=True)
    assert links(weights) == {(1, 0), (0, 1)}  # a tie goes to the first; a row of nothing has no link
    assert links(weights, threshold=0.25) == {(1, 0), (2, 0), (0, 1), (1, 1)}
    assert links(torch.zeros(0, 3)) == links(torch.zeros(3, 0)) == frozenset()


def test_tokens_are_merged_to_words():
    """Source pieces a a b, target pieces x y y: sums over columns, means over rows; rows still sum to 1."""
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.0, 0.0, 1.0]])
    merged = merge_to_words(weights, [0, 0, 1], [0, 1, 1])
    np.testing.assert_allclose(merged, [[0.5, 0.5], [0.4, 0.6]], atol=1e-7)
    np.testing.assert_allclose(merged.sum(1), 1, atol=1e-7)


def test_end_marks_belong_to_no_word():
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(merge_to_words(weights, [0, 1], [0]), [[0.2, 0.3]], atol=1e-7)
    np.testing.assert_allclose(merge_to_words(weights, [0, 1, -1], [0, -1]), [[0.2, 0.3]], atol=1e-7)
    np.testing.assert_allclose(merge_to_words(weights, [0, 2], [1], source_count=4, target_count=2),
                               [[0, 0, 0, 0], [0.2, 0, 0.3, 0]], atol=1e-7)  # fmt: skip
    assert merge_to_words(weights, [], []).shape == (0, 0)


def test_tokens_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"\(2, 3\) do not fit 2 target and 4 source"):
        merge_to_words(torch.zeros(2, 3), [0, 0, 1, 1], [0, 1])
    with pytest.raises(ShapeError, match="source token belongs to word 5, but there are 3"):
        merge_to_words(torch.zeros(2, 3), [0, 5, 1], [0, 1], source_count=3)


def test_the_diagonal():
    assert diagonal(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal(2, 5) == {(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)}  # middles .1 .3 .5 .7 .9 of 2
    assert diagonal(5, 2) == {(1, 0), (3, 1)}  # .25 and .75 of 5
    assert diagonal(0, 3) == diagonal(3, 0) == frozenset()


def test_uniform_links():
    """3,000 words over 5: each share within 4.5 standard errors of a fifth; the seed fixes the draw."""
    drawn = uniform(5, 3000, seed=(7, 1))
    assert {target for _, target in drawn} == set(range(3000))
    shares = np.bincount([source for source, _ in drawn], minlength=5) / 3000
    assert np.all(np.abs(shares - 0.2) < 4.5 * np.sqrt(0.2 * 0.8 / 3000))
    assert drawn == uniform(5, 3000, seed=(7, 1)) != uniform(5, 3000, seed=(7, 2))
    assert uniform(0, 3) == frozenset()


@pytest.mark.skipif(not HANSARDS.is_dir(), reason="the gold alignments are absent")
def test_the_hansards():
    """447 sentences of Och & Ney's gold: 4,038 sure links, 17,438 with the possible ones, all within their words."""
    gold = read_pharaoh(HANSARDS / "enfr.gold", first=1)
    assert len(gold) == 447
    assert sum(len(one.sure) for one in gold) == 4038
    assert sum(len(one.possible) for one in gold) == 17438
    pairs = [line.split("|||") for line in (HANSARDS / "enfr.src-tgt").read_text(encoding="utf-8").splitlines()]
    sizes = [(len(source.split()), len(target.split())) for source, target in pairs]
    assert all(
        i < rows and j < columns for one, (rows, columns) in zip(gold, sizes, strict=True) for i, j in one.possible
    )
    sure, possible = [one.sure for one in gold], [one.possible for one in gold]
    assert alignment_error_rate(sure, sure, possible) == 0.0
    error = alignment_error_rate([diagonal(*size) for size in sizes], sure, possible)
    chance = alignment_error_rate([uniform(*size, seed=(0, n)) for n, size in enumerate(sizes)], sure, possible)
    assert 0.4 < error < 0.75 < chance < 1.0


def test_symmetrization():
    """Both directions agree on (0, 0) alone; growing from there takes what brings a new word."""
    forward = {(0, 0), (1, 1), (4, 3)}
    backward = {(0, 0), (2, 2), (1, 0)}
    assert intersection(forward, backward) == {(0, 0)}
    assert union(forward, backward) == {(0, 0), (1, 1), (4, 3), (2, 2), (1, 0)}
    # Beside (0, 0): (1, 0) brings source 1; then (1, 1) target 1; then (2, 2). (4, 3) is added at the end.
    assert grow_diag_final(forward, backward) == {(0, 0), (1, 0), (1, 1), (2, 2), (4, 3)}
    # A link whose words both have links already is not added, though it is in the union and a neighbour.
    assert grow_diag_final({(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}) == {(0, 0), (1, 1)}
    assert grow_diag_final(set(), set()) == frozenset()


def test_final_and_asks_for_two_new_words():
    """Nothing grows from (0, 0). (0, 2) brings target 2 alone, (3, 4) two words."""
    forward, backward = {(0, 0), (0, 2), (3, 4)}, {(0, 0)}
    assert grow_diag(forward, backward) == {(0, 0)}
    assert grow_diag_final(forward, backward) == {(0, 0), (0, 2), (3, 4)}
    assert grow_diag_final_and(forward, backward) == {(0, 0), (3, 4)}
    # Both want target 5; the forward link comes first.
    assert grow_diag_final_and({(2, 5)}, {(3, 5)}) == {(2, 5)}
    assert grow_diag_final({(2, 5)}, {(3, 5)}) == {(2, 5), (3, 5)}


def test_growing_continues_ahead_within_a_round():
    """From (2, 1): (1, 0) lies behind it and waits, (1, 2) ahead and goes on to (0, 1); then (0, 0) brings nothing new.

    Rounds that look around from old links only would take (0, 0) first, which is not what Moses does.
    """
    forward, backward = {(0, 0), (1, 2), (2, 1)}, {(0, 1), (1, 0), (2, 1)}
    assert grow_diag(forward, backward) == {(2, 1), (1, 0), (1, 2), (0, 1)}
    assert grow_diag_final(forward, backward) == grow_diag(forward, backward)
