"""How good a translator is on pairs of sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.chance import Chance
from regard.data.pairs.parallel_text import Link, Pair
from regard.data.translation.corpus import read_corpus
from regard.decoding.settings import SearchSettings
from regard.errors import DataError
from regard.metrics.alignment import alignment_error_rate
from regard.metrics.buckets import by_length
from regard.metrics.entropy import mean_row_entropy
from regard.metrics.links import diagonal, uniform
from regard.metrics.perplexity import perplexity
from regard.metrics.text import Measured, bleu, chrf, exact_match
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.runs import config_of
from regard.tasks.translation.data import held_apart, language_of
from regard.tasks.translation.outputs import Translation
from regard.tasks.translation.predictor import Reading, TranslationPredictor
from regard.tasks.translation.settings import TestedPairs, TranslationSettings

EDGES = (8, 11, 14, 18)
"""Source lengths in words at which the next bucket begins."""


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluation(Evaluation):
    """What was measured of a translator.

    The measures are bleu, chrf, exact, perplexity; entropy where the model attends, in nats; aer where true links are
    known, whose baselines link along the diagonal, and to a random word each; unmoved where sources were
    shuffled.

    Attributes:
        translations: the outputs, in order.
    """

    translations: list[Translation] = field(repr=False)

    def lines(self) -> list[str]:
        """The texts of the translations."""
        return [one.text for one in self.translations]


def evaluate(
    translator: TranslationPredictor,
    pairs: Sequence[Pair],
    search: SearchSettings | None = None,
    batch: int = 64,
    edges: Sequence[int] | None = None,
    shuffled: bool = False,
) -> TranslationEvaluation:
    """Translate the sources and compare with the targets.

    Perplexity is that of the given targets, per token, EOS counted. Entropy is the mean over those tokens of the
    entropy, in nats, of the weights over source tokens when the model predicts them. The alignment error rate is of
    the same weights, against the pairs' true links: a target word is linked to the source word of highest
    weight. Words are those that the pair's links count.

    Args:
        translator: a trained one.
        pairs: sources and the targets to compare with.
        search: in place of the run's own.
        batch: sentences computed together; never changes a result.
        edges: source lengths in words at which the next bucket of `lengths` begins; `EDGES` if not given.
        shuffled: translate the sources in another order of their words, too: `unmoved` is the share of them whose
            translation stays the same. A source that has no other order, of one word as a rule, is left out of it.

    Raises:
        DataError: there are no pairs.
    """
    if not pairs:
        raise DataError("there are no pairs to evaluate on; the files are empty")
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translations = translator.translate(sources, search, batch)
    texts = [translation.text for translation in translations]
    readings = translator.score(sources, targets, batch)
    moved: dict[int, str] = {}
    if shuffled and (orders := _shuffled(sources)):
        again = translator.translate(list(orders.values()), search, batch)
        moved = {at: one.text for at, one in zip(orders, again, strict=True)}
    language = language_of(targets)
    linked = _Linked.of(translator, pairs, readings)

    def measure(places: Sequence[int]) -> dict[str, Measured]:
        found, wanted = [texts[at] for at in places], [targets[at] for at in places]
        read = [readings[at] for at in places]
        nats, tokens = -sum(one.log_probability for one in read), sum(one.length for one in read)
        measured = {
            "bleu": bleu(found, wanted, language=language),
            "chrf": chrf(found, wanted),
            "exact": exact_match(found, wanted),
            "perplexity": Measured(perplexity(nats, tokens), "", tokens),
        }
        if others := [at for at in places if at in moved]:
            measured["unmoved"] = exact_match([moved[at] for at in others], [texts[at] for at in others])
        tables = [one.alignment for one in read if one.alignment is not None]
        if tables:
            measured["entropy"] = Measured(mean_row_entropy(tables), "", tokens)
        if linked is not None:
            measured["aer"] = Measured(linked.error(linked.predicted, places), "", len(places))
        return measured

    every = range(len(pairs))
    measured = measure(every)
    baselines = {}
    if linked is not None:
        baselines = {"diagonal": linked.error(linked.diagonal, every), "uniform": linked.error(linked.uniform, every)}
    notes = [f"line {one.line}: {one.note}" for one in translations if one.note]
    unfinished = sum(not one.finished for one in translations)
    if unfinished:
        notes.append(f"{unfinished} translations did not end by themselves and were cut off")
    notes += case_notes(translator, targets)
    buckets = by_length([len(translator.source.words(source)) for source in sources], edges or EDGES, measure)
    return TranslationEvaluation(
        items=len(pairs),
        unit="pairs",
        measures={name: one.value for name, one in measured.items()},
        signatures={name: one.signature for name, one in measured.items() if one.signature},
        baselines=baselines,
        baselined="aer",
        by="source words",
        lengths=[
            {
                "length": str(bucket),
                "pairs": bucket.count,
                **{
                    name: bucket.value[name].value if bucket.value and name in bucket.value else None
                    for name in measured
                },
            }
            for bucket in buckets
        ],
        notes=notes,
        translations=translations,
    )


def case_notes(translator: TranslationPredictor, targets: Sequence[str]) -> list[str]:
    """That measures count capitals which a translator of lower case never writes, if there are any; else nothing."""
    capitals = sum(target != target.lower() for target in targets) if translator.target.lower else 0
    if not capitals:
        return []
    return [
        f"the model writes lower case (data.lower), and {capitals} of {len(targets)} targets have capitals, which "
        "bleu, chrf and exact count as wrong; give targets in lower case to leave case out"
    ]


def _shuffled(sources: Sequence[str]) -> dict[int, str]:
    """By number the sources that have another order, with their words in one; the same for the same number."""
    orders = {}
    for at, words in enumerate(source.split() for source in sources):
        if len(set(words)) > 1:
            chance, mixed = Chance("order", at), words
            while mixed == words:
                mixed = chance.shuffled(words)
            orders[at] = " ".join(mixed)
    return orders


def held_out(run: Path) -> list[Pair]:
    """The pairs that a run held out from its training."""
    return held_apart(check(TranslationSettings, config_of(run)))[1]


@dataclass(frozen=True)
class _Linked:
    """The links of each pair: true ones, those of the model, and those of two baselines that have learned nothing."""

    sure: list[frozenset[Link]]
    possible: list[frozenset[Link]]
    predicted: list[frozenset[Link]]
    diagonal: list[frozenset[Link]]
    uniform: list[frozenset[Link]]

    @classmethod
    def of(
        cls, translator: TranslationPredictor, pairs: Sequence[Pair], readings: Sequence[Reading]
    ) -> "_Linked | None":
        """None where the truth is not known of every pair, or where the model doesn't attend."""
        if readings[0].alignment is None or any(pair.links is None for pair in pairs):
            return None
        shown = [translator.shown(reading, pair.counted) for pair, reading in zip(pairs, readings, strict=True)]
        sizes = [(len(one.source_words), len(one.target_words)) for one in shown]
        return cls(
            sure=[pair.links or frozenset() for pair in pairs],
            possible=[pair.possible or frozenset() for pair in pairs],
            predicted=[one.links() for one in shown],
            diagonal=[diagonal(*size) for size in sizes],
            uniform=[uniform(*size, seed=(0, number)) for number, size in enumerate(sizes)],
        )

    def error(self, links: list[frozenset[Link]], places: Sequence[int]) -> float:
        """The alignment error rate of these links, over some of the pairs."""
        return alignment_error_rate(*([side[at] for at in places] for side in (links, self.sure, self.possible)))


def evaluate_run(
    translator: TranslationPredictor,
    run: Path,
    test: dict[str, Any],
    *,
    search: SearchSettings | None = None,
    batch: int = 64,
) -> TranslationEvaluation:
    """Translate the pairs of a test, or those that the run held out; see `evaluate`.

    Args:
        translator: of the run, or several as one.
        run: its folder.
        test: values of `TestedPairs`; {} for what the run held out.
        search: in place of the run's own.
        batch: sentences computed together; never changes a result.

    Raises:
        DataError: there are no pairs.
    """
    tested = check(TestedPairs, test)
    pairs = read_corpus(tested) if tested.given else held_out(run)
    return evaluate(translator, pairs, search, batch, tested.edges, tested.shuffled)
