"""Several systems on one test set, and whether they differ by more than chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import DataError
from regard.metrics.significance import LEVEL, SEED, Compared, Test, paired
from regard.tasks.translation.data import language_of

_TITLES = {"bleu": "BLEU", "chrf": "chrF"}
_TESTS = {"bootstrap": "paired bootstrap resampling", "ar": "paired approximate randomization"}


@dataclass(frozen=True)
class Comparison:
    """What was found.

    Attributes:
        names: of the systems; the first is what the others are compared with.
        pairs: sentences that they were compared on.
        measures: for each measure one entry per system.
        signatures: what makes a measure comparable; the test, its samples and seed are in it.
        test: which test.
    """

    names: list[str]
    pairs: int
    measures: dict[str, list[Compared]]
    signatures: dict[str, str]
    test: Test

    def words(self) -> list[str]:
        """A sentence for each measure and each system but the first: is the difference significant?"""
        verdicts = []
        for name, entries in self.measures.items():
            for place, entry in enumerate(entries[1:], start=1):
                verdicts.append(self._verdict(_TITLES[name], place, entry, entries[0]))
        return verdicts

    def _verdict(self, title: str, place: int, entry: Compared, first: Compared) -> str:
        assert entry.p is not None and entry.adjusted is not None
        difference = entry.value - first.value
        subject = f"{self.names[place]} has the same {title} as {self.names[0]}"
        if difference:
            side = "above" if difference > 0 else "below"
            subject = f"{self.names[place]} is {abs(difference):.2f} {title} {side} {self.names[0]}"
        shown = f"p = {entry.p:.4f}"
        if len(self.names) > 2:
            shown += f", {entry.adjusted:.4f} after Holm's correction for {len(self.names) - 1} comparisons"
        verdict = "significant" if entry.significant else "not significant"
        return f"{subject}: {verdict} at {LEVEL} ({shown}; {self.pairs} pairs, {_TESTS[self.test]})."

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        measures = {
            name: [
                {
                    "system": system,
                    "value": entry.value,
                    "interval": [entry.low, entry.high],
                    "p": entry.p,
                    "p_holm": entry.adjusted,
                    "significant": entry.significant if entry.p is not None else None,
                }
                for system, entry in zip(self.names, entries, strict=True)
            ]
            for name, entries in self.measures.items()
        }
        return {
            "pairs": self.pairs,
            "test": self.test,
            "level": LEVEL,
            "measures": measures,
            "signatures": self.signatures,
            "words": self.words(),
        }


def compare_outputs(
    names: Sequence[str],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    test: Test = "bootstrap",
    samples: int | None = None,
    seed: int = SEED,
) -> Comparison:
    """Compare outputs, line by line, with the first system's; see `metrics.significance.paired`.

    Raises:
        DataError: a system has another number of lines than the references; it is named.
    """
    for name, lines in zip(names, systems, strict=True):
        if len(lines) != len(references):
            raise DataError(
                f"{name} has {len(lines)} lines, and there are {len(references)} translations to compare with"
            )
    language = language_of(references)
    measures, signatures = paired(systems, references, language=language, test=test, samples=samples, seed=seed)
    return Comparison(list(names), len(references), measures, signatures, test)
