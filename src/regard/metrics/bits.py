"""Wrong bits of answers: the measure of algorithms that are learned (Graves, Wayne & Danihelka 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from regard.errors import DataError


@dataclass(frozen=True)
class BitErrors:
    """How many bits of each answer were wrong, and how many it has.

    Raises:
        DataError: there is no answer, or the two lists differ in length.
    """

    wrong: Sequence[int]
    bits: Sequence[int]

    def __post_init__(self) -> None:
        if not self.wrong or len(self.wrong) != len(self.bits):
            raise DataError(f"{len(self.wrong)} counts of wrong bits for {len(self.bits)} answers; each needs one")

    @property
    def mean(self) -> float:
        """Wrong bits per sequence."""
        return fmean(self.wrong)

    @property
    def median(self) -> float:
        """Wrong bits of the sequence in the middle; of the two in the middle the mean."""
        return float(median(self.wrong))

    @property
    def exact(self) -> float:
        """The part of sequences without any wrong bit."""
        return sum(not wrong for wrong in self.wrong) / len(self.wrong)

    @property
    def accuracy(self) -> float:
        """The part of all bits that is right; a coin toss has ½."""
        return 1 - sum(self.wrong) / sum(self.bits)

    @property
    def chance(self) -> float:
        """Wrong bits per sequence when each bit of an answer is a coin toss."""
        return fmean(self.bits) / 2
