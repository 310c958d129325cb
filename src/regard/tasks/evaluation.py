"""How good a translator is on pairs of sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data.pairs import Pair
from regard.decoding.settings import SearchSettings
from regard.errors import DataError
from regard.metrics.alignment import alignment_error_rate, diagonal, links, merge_to_words, uniform
from regard.metrics.bleu import bleu, chrf
from regard.metrics.exact import exact_match
from regard.metrics.perplexity import perplexity
from regard.tasks.outputs import Translation
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
    overall, characters = bleu(texts, targets), chrf(texts, targets)
    measures = {
        "bleu": overall.value,
        "chrf": characters.value,
        "exact": exact_match(texts, targets),
        "perplexity": perplexity([one.log_probability for one in readings], [one.tokens for one in readings]),
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
    return Evaluation(len(pairs), measures, signatures, baselines, _lengths(words, texts, targets), notes, translations)


def test_pairs(source: Path | str, target: Path | str, links: Path | str | None = None) -> list[Pair]:
    """The pairs of two line-aligned files, with their true links if a file of them is given."""
    pairs = read_pairs(source, target)
    if links is None:
        return pairs
    lines = read_lines(links)
    if len(lines) != len(pairs):
        raise DataError(
            f"{links} has {len(lines)} lines, but there are {len(pairs)} pairs; one line of links a pair is needed"
        )
    linked = []
    for number, (pair, line) in enumerate(zip(pairs, lines, strict=True), start=1):
        sure, possible = read_pharaoh(line, f"{links}, line {number}")
        linked.append(replace(pair, links=sure, possible=possible))
    return linked


def held_out(run: Path) -> list[Pair]:
    """The pairs that a run held out from its training."""
    return read_split(check(TranslationSettings, config_of(run)).data)[1]


def _alignment_error(
    translator: Translator, pairs: Sequence[Pair], readings: Sequence[Reading]
) -> tuple[float, dict[str, float]]:
    """AER of the model, and of the two baselines that have learned nothing."""
    sure = [pair.links or frozenset() for pair in pairs]
    possible = [pair.possible or pair.links or frozenset() for pair in pairs]
    predicted, along, alike = [], [], []
    for reading in readings:
        merged = merge_to_words(reading.alignment, reading.source.words, reading.target.words)
        predicted.append(links(merged))
        rows, columns = merged.shape
        along.append(links(diagonal(columns, rows)))
        alike.append(links(uniform(columns, rows)))
    error, *baselines = (alignment_error_rate(one, sure, possible) for one in (predicted, along, alike))
    return error, dict(zip(("diagonal", "uniform"), baselines, strict=True))
