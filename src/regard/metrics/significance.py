"""Whether a difference between systems is more than chance: paired tests over the sentences, by sacreBLEU."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from regard.errors import ConfigError, DataError
from regard.metrics.text import bleu_tokenizer

Test = Literal["bootstrap", "ar"]

LEVEL = 0.05
SEED = 12345
"""sacreBLEU's own, so that its command gives the same numbers."""

_KINDS = {"bootstrap": "bs", "ar": "ar"}
_SEED_VARIABLE = "SACREBLEU_SEED"


@dataclass(frozen=True)
class Compared:
    """One measure of one system, beside the first one's.

    Attributes:
        value: of the whole text.
        low, high: 95 % of the resampled texts lie between them; the interval is sacreBLEU's, mean ± half a width.
        p: how likely a difference this large is by chance alone, two-sided; None for the first system.
        adjusted: p after Holm's correction for all systems that are compared with the first; None for the first.
    """

    value: float
    low: float
    high: float
    p: float | None
    adjusted: float | None

    @property
    def significant(self) -> bool:
        """Whether the difference from the first system is significant at `LEVEL`, the correction counted."""
        return self.adjusted is not None and self.adjusted < LEVEL


def paired(
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    language: str | None = None,
    test: Test = "bootstrap",
    samples: int | None = None,
    seed: int = SEED,
) -> tuple[dict[str, list[Compared]], dict[str, str]]:
    """BLEU and chrF of each system, with intervals and with p-values against the first one.

    The bootstrap draws sentences with replacement, the same for both systems (Koehn 2004); approximate randomization
    swaps the two systems' outputs of sentences drawn (Riezler & Maxwell 2005). Where several systems are compared with
    the first, their p-values are corrected by Holm's step-down procedure (1979), each measure by itself.

    Args:
        systems: outputs, one line per sentence; the first is what the others are compared with.
        references: as many lines.
        language: of the target, for BLEU's tokenizer.
        test: "bootstrap" or "ar".
        samples: resampled texts or trials; by default 1,000 for the bootstrap and 10,000 for "ar".
        seed: of the draws, above 0 (sacreBLEU takes 0 for none).

    Returns:
        For each measure one entry per system, and the measures' signatures.

    Raises:
        DataError: fewer than two systems, no lines, or not as many in each.
        ConfigError: a number is too small.
    """
    if len(systems) < 2:
        raise DataError(f"a paired test compares at least two systems; {len(systems)} was given")
    counts = [len(lines) for lines in (*systems, references)]
    if len(set(counts)) > 1:
        raise DataError(f"systems of {counts[:-1]} lines and {counts[-1]} references: expected as many of each")
    if not references:
        raise DataError("there are no sentences to compare on; the files are empty")
    if seed < 1 or (samples is not None and samples < 40):
        raise ConfigError(
            "a seed is at least 1, and an interval of 95 % needs at least 40 samples; given are seed "
            f"{seed} and {samples} samples"
        )
    measures = {"bleu": BLEU(tokenize=bleu_tokenizer(language)), "chrf": CHRF()}
    named: list[tuple[str, Sequence[str]]] = [(str(place), list(lines)) for place, lines in enumerate(systems)]
    with _seeded(seed):
        tested = PairedTest(
            named,
            measures,
            [list(references)],
            test_type=_KINDS[test],
            n_samples=samples or 0,
            n_ar_confidence=0 if test == "ar" else -1,  # intervals of 1,000 resampled texts; the bootstrap has its own
        )
        signatures, found = tested()
    # A trial counts where it differs at least as much; sacreBLEU counts only those that differ more. Of random swaps
    # those of nothing and of everything differ just as much: all there are where the systems differ in one sentence.
    differing = [sum(one != other for one, other in zip(systems[0], lines, strict=True)) for lines in systems[1:]]
    ties = [2.0 ** (1 - count) if test == "ar" and count else 0.0 for count in differing]
    rows, keys = {}, dict(zip(measures, signatures, strict=True))
    for name, key in keys.items():
        results: list[Any] = found[key]
        chances = [
            1.0 if one.score == results[0].score else min(1.0, float(one.p_value) + tie)
            for one, tie in zip(results[1:], ties, strict=True)
        ]
        rows[name] = [
            Compared(float(one.score), float(one.mean - one.ci), float(one.mean + one.ci), p, adjusted)
            for one, p, adjusted in zip(results, [None, *chances], [None, *holm(chances)], strict=True)
        ]
    return rows, {name: str(signatures[key]) for name, key in keys.items()}


def holm(values: Sequence[float]) -> list[float]:
    """P-values of several tests, corrected so that any false finding among them has the stated probability.

    Holm's step-down procedure (1979): the k-th smallest of m is multiplied by m − k + 1, and none is smaller than the
    one before it.
    """
    corrected = [0.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=lambda at: values[at])):
        largest = max(largest, min(1.0, values[place] * (len(values) - rank)))
        corrected[place] = largest
    return corrected


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The scorer's tests read their seed from the environment."""
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SEED_VARIABLE]
        else:
            os.environ[_SEED_VARIABLE] = before
