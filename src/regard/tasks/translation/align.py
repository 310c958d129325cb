"""Word alignment of given pairs: by one run, or by two of opposite directions whose links are symmetrized."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee

from torch import Tensor

from regard.data.pairs.parallel_text import Links, Pair
from regard.data.settings import WordUnit
from regard.errors import RegardError
from regard.metrics.alignment import AlignmentScores, alignment_scores
from regard.metrics.links import diagonal, links, uniform
from regard.metrics.symmetrize import SYMMETRIZATIONS
from regard.tasks.translation.predictor import TranslationPredictor


@dataclass(frozen=True)
class Aligned:
    """The alignment of one pair.

    Attributes:
        source_words, target_words: what the links count.
        weights: `(target words, source words)`, as the run reads the target; or posteriors of the links.
        forward: links (source word, target word): for each target word the source word of highest weight, or
            all those whose weight is at least the threshold.
        backward: the same by the run of the other direction, so one for each source word; None without one.
        notes: what was done to the texts.
    """

    source_words: list[str]
    target_words: list[str]
    weights: Tensor
    forward: Links
    backward: Links | None
    notes: list[str]

    def links(self, symmetrization: str | None) -> Links:
        """The forward links; or both directions' joined, by a name of `SYMMETRIZATIONS`."""
        if symmetrization is None or self.backward is None:
            return self.forward
        return SYMMETRIZATIONS[symmetrization](self.forward, self.backward)


def align(
    forward: TranslationPredictor,
    pairs: Iterable[tuple[str, str]],
    *,
    backward: TranslationPredictor | None = None,
    counted: WordUnit = "whitespace",
    threshold: float | None = None,
    posterior: bool = False,
    batch: int = 64,
) -> Iterator[Aligned]:
    """Align pairs, in order, while they are being read.

    The row of a target word is of the step that predicts it, teacher-forced, whichever order the decoder has: its
    weights from before the word is known. The posterior says where the word came from, once it is known.

    Args:
        forward: a run from source to target.
        pairs: source and target of each.
        backward: a run from target to source.
        counted: what a word is.
        threshold: link every weight of at least this, in place of each row's highest.
        posterior: take posteriors of the links in place of attention's weights (see `models.posterior`).
        batch: pairs computed together.

    Raises:
        RegardError: a run has no attention.
    """
    for one in (forward, backward):
        if one is not None and one.model.decoder.alignment is None:
            raise RegardError("a run without attention (model.attention is none) has no alignment; take another run")
    pairs, turned = tee(pairs)
    others = None
    if backward is not None:
        others = backward.readings(((target, source) for source, target in turned), batch, posterior=posterior)
    for reading in forward.readings(pairs, batch, posterior=posterior):
        shown = forward.shown(reading, counted)
        weights, notes = shown.between_words(), list(reading.notes)
        back = None
        if backward is not None and others is not None:
            other = next(others)
            found = links(backward.shown(other, counted).between_words(), threshold)
            back = frozenset((source, target) for target, source in found)
            notes += [f"the other direction: {note}" for note in other.notes]
        yield Aligned(
            list(shown.source_words), list(shown.target_words), weights, links(weights, threshold), back, notes
        )


def measure(aligned: Sequence[Aligned], gold: Sequence[Pair]) -> dict[str, AlignmentScores]:
    """How near alignments come to true links: each direction, each symmetrization, and two untrained baselines.

    Args:
        aligned: one per pair, of the words that its links count.
        gold: pairs with links.
    """
    found: dict[str, list[Links]] = {"forward": [one.forward for one in aligned]}
    if all(one.backward is not None for one in aligned):
        found["backward"] = [one.backward or frozenset() for one in aligned]
        found |= {name: [one.links(name) for one in aligned] for name in SYMMETRIZATIONS}
    sizes = [(len(one.source_words), len(one.target_words)) for one in aligned]
    found["diagonal"] = [diagonal(*size) for size in sizes]
    found["uniform"] = [uniform(*size, seed=(0, number)) for number, size in enumerate(sizes)]
    sure = [pair.links or frozenset() for pair in gold]
    possible = [pair.possible or frozenset() for pair in gold]
    return {name: alignment_scores(links, sure, possible) for name, links in found.items()}
