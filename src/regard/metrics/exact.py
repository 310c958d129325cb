"""The share of outputs that are exactly the reference."""

from collections.abc import Sequence

from regard.errors import DataError


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of lines, 0 to 1, that equal their reference character for character; 0 of no lines.

    Raises:
        DataError: the numbers of lines differ.
    """
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} outputs and {len(references)} references: expected one of each a line")
    same = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return same / len(hypotheses) if hypotheses else 0.0
