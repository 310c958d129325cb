"""Priority sort (Graves, Wayne & Danihelka 2014, section 4.5)."""

import math

import numpy as np

from regard.data.algorithms.problem import SequenceItem, draw_bits, read_rows, write_row
from regard.data.algorithms.settings import PrioritySortSettings
from regard.data.chance import Chance
from regard.errors import DataError, quoted


class PrioritySort:
    """Rows of bits, each with a priority from −1 to 1, a mark, and then the rows of the highest priorities in order.

    Inputs: the bits, the priority, and the mark. Of equal priorities the one given first is first.
    """

    def __init__(self, settings: PrioritySortSettings) -> None:
        self.bits, self.kept = settings.bits, settings.kept
        self.inputs, self.outputs = self.bits + 2, self.bits
        self.form = (
            f"rows as priority:bits with spaces between, the priority from -1 to 1 and {self.bits} bits, as in "
            f"0.25:{'01' * self.bits:.{self.bits}} …"
        )

    def draw(self, chance: Chance, length: int) -> SequenceItem:
        """Random rows of bits with random priorities; `length` counts rows."""
        priorities = np.array([2 * chance() - 1 for _ in range(length)], np.float32)
        return self._item(priorities, draw_bits(chance, length, self.bits))

    def read(self, text: str) -> SequenceItem:
        """The rows and priorities that a person wrote.

        Raises:
            DataError: a row is not of that many bits, or a priority is no number from -1 to 1.
        """
        pairs = [word.partition(":") for word in text.split()]
        rows = read_rows([bits for _, _, bits in pairs], self.bits)
        return self._item(np.array([_priority(word, at) for at, (word, _, _) in enumerate(pairs, 1)], np.float32), rows)

    def write(self, bits: np.ndarray) -> str:
        """An answer's bits, `(rows, bits)`, as words of 0 and 1."""
        return " ".join(map(write_row, bits))

    def rows(self, item: SequenceItem) -> list[str]:
        """A label for each row of the input: `priority:bits`, or ? for the mark."""
        return [*(f"{row[self.bits]:+.2f}:{write_row(row[: self.bits])}" for row in item.question[:-1]), "?"]

    def sources(self, item: SequenceItem) -> list[int | None]:
        """The input row that each output row copies: those of the highest priorities in order."""
        return list(map(int, self._order(item.question[:-1, self.bits])))

    def _item(self, priorities: np.ndarray, rows: np.ndarray) -> SequenceItem:
        question = np.zeros((len(rows) + 1, self.inputs), np.float32)
        question[:-1, : self.bits], question[:-1, self.bits] = rows, priorities
        question[-1, self.bits + 1] = 1
        return SequenceItem(question, rows[self._order(priorities)], len(rows))

    def _order(self, priorities: np.ndarray) -> np.ndarray:
        count = math.ceil(round(self.kept * len(priorities), 6))  # 0.8 × 5 is 4, whatever a float makes of it
        return np.argsort(-priorities, kind="stable")[:count]


def _priority(word: str, number: int) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not -1 <= value <= 1:
        raise DataError(f"row {number} has the priority {quoted(word)}; expected a number from -1 to 1")
    return value
