"""How good a translator is on pairs of sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.data.pairs import Pair, read_pairs
from regard.decoding.settings import SearchSettings
from regard.errors import DataError
from regard.metrics.alignment import alignment_error_rate
from regard.metrics.buckets import by_length
from regard.metrics.links import diagonal, uniform
from regard.metrics.perplexity import perplexity
from regard.metrics.pharaoh import read_pharaoh
from regard.metrics.text import bleu, chrf, exact_match
from regard.tasks.config import check
from regard.tasks.corpus import held_apart, language_of
from regard.tasks.outputs import Translation
from regard.tasks.runs import config_of
from regard.tasks.settings import TranslationSettings
from regard.tasks.translator import Reading, Translator

EDGES = (8, 11, 14, 18)
"""Source lengths in words at which the next bucket begins."""


@dataclass(frozen=True)
class Evaluation:
    """What was measured.

    Attributes:
        pairs: how many.
        measures: by name: bleu, chrf, exact, perplexity, and aer where true links are known.
        signatures: what makes a measure comparable, for those that have one.
        baselines: AER of looking along the diagonal, and of looking everywhere alike.
        lengths: BLEU and count by source length in words.
        notes: what a reader must know, such as lines that were cut.
        translations: the outputs, in order.
    """

    pairs: int
    measures: dict[str, float]
    signatures: dict[str, str]
    baselines: dict[str, float]
    lengths: list[dict[str, Any]]
    notes: list[str]
    translations: list[Translation] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Everything but the translations, as plain values."""
        return {
            "pairs": self.pairs,
            "measures": self.measures,
            "signatures": self.signatures,
            "baselines": self.baselines,
            "lengths": self.lengths,
            "notes": self.notes,
        }


def evaluate(
    translator: Translator, pairs: Sequence[Pair], search: SearchSettings | None = None, batch: int = 64
) -> Evaluation:
    """Translate the sources and compare with the targets.

    Perplexity is a piece (its end mark counted), of the given targets. The alignment error rate is of the weights with
    which the model reads the given targets, against the pairs' true links: a target word is linked to the source word
    that it received most from.
    """
    if not pairs:
        raise DataError("there are no pairs to evaluate on; the files are empty")
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translations = translator.translate(sources, search, batch)
    texts = [translation.text for translation in translations]
    readings = translator.score(sources, targets, batch)
    language = language_of(targets)
    overall, characters = bleu(texts, targets, language=language), chrf(texts, targets)
    measures = {
        "bleu": overall.value,
        "chrf": characters.value,
        "exact": exact_match(texts, targets).value,
        "perplexity": perplexity(-sum(one.log_probability for one in readings), sum(one.tokens for one in readings)),
    }
    signatures = {"bleu": overall.signature, "chrf": characters.signature}
    baselines: dict[str, float] = {}
    if all(pair.links is not None for pair in pairs) and readings[0].alignment is not None:
        measures["aer"], baselines = _alignment_error(translator, pairs, readings)
    notes = [f"line {one.line}: {one.note}" for one in translations if one.note]
    unfinished = sum(not one.finished for one in translations)
    if unfinished:
        notes.append(f"{unfinished} translations did not end by themselves and were cut off")
    words = [len(translator.source.words(source)) for source in sources]

    def part(places: list[int]) -> float:
        return bleu([texts[at] for at in places], [targets[at] for at in places], language=language).value

    lengths = [
        {"length": str(bucket), "pairs": bucket.count, "bleu": bucket.value} for bucket in by_length(words, EDGES, part)
    ]
    return Evaluation(len(pairs), measures, signatures, baselines, lengths, notes, translations)


def test_pairs(source: Path | str, target: Path | str, links: Path | str | None = None, first: int = 0) -> list[Pair]:
    """The pairs of two line-aligned files, with their true links if a file of them is given.

    Args:
        source, target: the files.
        links: a line of links such as `0-0 1p2` for each pair.
        first: the number of the first word in it, 0 or 1.
    """
    pairs = read_pairs(source, target)
    if links is None:
        return pairs
    gold = read_pharaoh(links, first=first)
    if len(gold) != len(pairs):
        raise DataError(
            f"{links} has {len(gold)} lines, but there are {len(pairs)} pairs; one line of links a pair is needed"
        )
    return [replace(pair, links=one.sure, possible=one.possible) for pair, one in zip(pairs, gold, strict=True)]


def held_out(run: Path) -> list[Pair]:
    """The pairs that a run held out from its training."""
    return held_apart(check(TranslationSettings, config_of(run)))[1]


def _alignment_error(
    translator: Translator, pairs: Sequence[Pair], readings: Sequence[Reading]
) -> tuple[float, dict[str, float]]:
    """AER of the model, and of the two baselines that have learned nothing."""
    sure = [pair.links or frozenset() for pair in pairs]
    possible = [pair.possible or pair.links or frozenset() for pair in pairs]
    predicted, along, alike = [], [], []
    for number, reading in enumerate(readings):
        shown = translator.shown(reading)
        sizes = len(shown.source_words), len(shown.target_words)
        predicted.append(shown.links())
        along.append(diagonal(*sizes))
        alike.append(uniform(*sizes, seed=(0, number)))
    error, *baselines = (alignment_error_rate(one, sure, possible) for one in (predicted, along, alike))
    return error, dict(zip(("diagonal", "uniform"), baselines, strict=True))
