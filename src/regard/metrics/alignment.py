"""Word alignments against gold links: error rate, precision, recall. A link is (source word, target word), from 0."""

from collections.abc import Sequence, Set as AbstractSet
from typing import NamedTuple

from regard.data.pairs.parallel_text import Link
from regard.errors import DataError


class AlignmentScores(NamedTuple):
    """Sums over all sentences, then the rates; see `alignment_scores`."""

    error_rate: float
    precision: float
    recall: float
    predicted: int
    sure: int


def alignment_scores(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
) -> AlignmentScores:
    """Precision, recall and error rate of Och & Ney 2003, § 5.1, with A the predicted links and S ⊆ P the gold ones.

    precision = |A ∩ P| / |A|, recall = |A ∩ S| / |S|, AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), each from sums over
    all sentences. Where nothing is predicted no link is wrong: precision 1. Where nothing is sure none is missed:
    recall 1. Where both hold, AER is 0.

    Args:
        predicted: a set of links for each sentence.
        sure: the gold's sure links.
        possible: the gold's possible links; sure ones count as possible whether they are listed or not.

    Raises:
        DataError: the numbers of sentences differ.
    """
    possible = possible if possible is not None else sure
    if not len(predicted) == len(sure) == len(possible):
        raise DataError(
            f"{len(predicted)} predicted, {len(sure)} sure and {len(possible)} possible alignments do not belong "
            f"together: one set per sentence is expected in each"
        )
    links = hits_sure = hits_possible = wanted = 0
    for guess, certain, allowed in zip(predicted, sure, possible, strict=True):
        links += len(guess)
        wanted += len(certain)
        hits_sure += len(guess & certain)
        hits_possible += len(guess & (allowed | certain))
    error = 1.0 - (hits_sure + hits_possible) / (links + wanted) if links + wanted else 0.0
    return AlignmentScores(
        error, hits_possible / links if links else 1.0, hits_sure / wanted if wanted else 1.0, links, wanted
    )


def alignment_error_rate(
    predicted: Sequence[AbstractSet[Link]],
    sure: Sequence[AbstractSet[Link]],
    possible: Sequence[AbstractSet[Link]] | None = None,
) -> float:
    """AER of Och & Ney 2003: 0 is perfect, 1 is all wrong; see `alignment_scores`."""
    return alignment_scores(predicted, sure, possible).error_rate
