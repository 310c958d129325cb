"""How near outputs come to references, over whole files: BLEU and chrF by sacreBLEU, and exact match."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from regard.errors import DataError


@dataclass(frozen=True)
class Measured:
    """A number and how it was made.

    Attributes:
        value: BLEU and chrF from 0 to 100, exact match from 0 to 1; 0 where there was nothing to measure.
        signature: all that the value depends on, in sacreBLEU's notation; empty for exact match.
        count: how many lines were measured.
    """

    value: float
    signature: str
    count: int

    def __str__(self) -> str:
        return f"{self.value:.1f} ({self.signature})" if self.signature else f"{self.value:.3f}"


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    language: str | None = None,
    lowercase: bool = False,
) -> Measured:
    """Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it, 0 to 100, with its signature.

    Args:
        hypotheses: one detokenized line per item; an empty one scores 0 and is no error.
        references: as many lines, or several such lists.
        language: of the target; "zh" is cut into characters, all others by the tokenizer 13a.
        lowercase: ignore case.
    """
    return _corpus(BLEU(tokenize=bleu_tokenizer(language), lowercase=lowercase), hypotheses, references)


def bleu_tokenizer(language: str | None) -> str:
    """What cuts lines of a language into what BLEU counts: Chinese into characters, others as mteval-v13a does."""
    return "zh" if language is not None and language.lower().split("-")[0] == "zh" else "13a"


def chrf(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], *, word_order: int = 0
) -> Measured:
    """Corpus chrF2 (Popović 2015), 0 to 100; `word_order=2` is chrF++."""
    return _corpus(CHRF(word_order=word_order), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Measured:
    """The share of lines, 0 to 1, that equal their reference character for character."""
    [lines] = _aligned(hypotheses, references)
    same = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, lines, strict=True))
    return Measured(same / len(hypotheses) if hypotheses else 0.0, "", len(hypotheses))


def _corpus(metric: Any, hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> Measured:
    sets = _aligned(hypotheses, references)
    if not hypotheses:  # the scorer itself refuses an empty file
        metric.num_refs = len(sets)
        return Measured(0.0, str(metric.get_signature()), 0)
    score = metric.corpus_score(list(hypotheses), sets).score
    return Measured(float(score), str(metric.get_signature()), len(hypotheses))


def _aligned(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    one_set = not references or isinstance(references[0], str)
    sets: list[list[str]] = [list(references)] if one_set else [list(lines) for lines in references]  # type: ignore[arg-type]
    for lines in sets:
        if len(lines) != len(hypotheses):
            raise DataError(f"{len(hypotheses)} outputs and {len(lines)} references: expected one of each per line")
    return sets
