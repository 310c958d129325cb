"""Copy, once or several times (Graves, Wayne & Danihelka 2014, sections 4.1 and 4.2)."""

import numpy as np

from regard.data.algorithms.problem import SequenceItem, draw_bits, read_rows, write_row
from regard.data.algorithms.settings import CopySettings, RepeatCopySettings
from regard.data.chance import Chance
from regard.errors import DataError, quoted

END = "end"

_MOST = 9999
"""Times that a person may ask for."""


class Copy:
    """Rows of bits, a mark, and then the rows again. Inputs: the bits and the mark.

    During the answer the input is zero; or, with `heard` (teacher forcing), the row before: n rows are then 2n steps,
    and copying what followed the same row earlier is enough.
    """

    def __init__(self, settings: CopySettings) -> None:
        self.bits, self.heard = settings.bits, settings.heard
        self.inputs, self.outputs = self.bits + 1, self.bits
        self.form = f"rows of {self.bits} bits with spaces between, as in {'01' * self.bits:.{self.bits}} …"

    def draw(self, chance: Chance, length: int) -> SequenceItem:
        """Random rows of bits to copy; `length` counts rows."""
        return self._item(draw_bits(chance, length, self.bits))

    def read(self, text: str) -> SequenceItem:
        """The rows that a person wrote.

        Raises:
            DataError: there are none, or one is not of that many bits.
        """
        return self._item(read_rows(text.split(), self.bits))

    def write(self, bits: np.ndarray) -> str:
        """An answer's bits, `(rows, bits)`, as words of 0 and 1."""
        return " ".join(map(write_row, bits))

    def rows(self, item: SequenceItem) -> list[str]:
        """A label for each row of the input: its bits, or ? for the mark."""
        given = [write_row(row[: self.bits]) for row in item.question]
        return [*given[: item.length], "?", *given[item.length + 1 :]]

    def sources(self, item: SequenceItem) -> list[int | None]:
        """Output row n copies input row n."""
        return list(range(item.length))

    def _item(self, rows: np.ndarray) -> SequenceItem:
        count = len(rows)
        question = np.zeros((2 * count if self.heard else count + 1, self.inputs), np.float32)
        question[:count, : self.bits] = rows
        question[count, self.bits] = 1
        if not self.heard:
            return SequenceItem(question, rows, count)
        question[count + 1 :, : self.bits] = rows[:-1]
        return SequenceItem(question, rows, count, tuple(range(count, 2 * count)))


class RepeatCopy:
    """Rows of bits, a mark with the number of times, and then the rows so many times and an end mark.

    Inputs: the bits, the mark, and the number with mean 0 and variance 1. Outputs: the bits and the end mark.
    """

    def __init__(self, settings: RepeatCopySettings) -> None:
        self.bits, self.repeats = settings.bits, settings.repeats
        self.inputs, self.outputs = self.bits + 2, self.bits + 1
        self.form = f"how many times, then rows of {self.bits} bits, as in 3 {'01' * self.bits:.{self.bits}} …"

    def draw(self, chance: Chance, length: int) -> SequenceItem:
        """Random rows of bits and a random number of repeats; `length` counts rows."""
        return self._item(draw_bits(chance, length, self.bits), 1 + chance.below(self.repeats))

    def read(self, text: str) -> SequenceItem:
        """The number of repeats and the rows that a person wrote.

        Raises:
            DataError: the number is not from 1 to 9999, or a row is not of that many bits.
        """
        times, *words = text.split() or [""]
        if not (times.isascii() and times.isdigit()) or len(times) > len(str(_MOST)) or int(times) < 1:
            raise DataError(
                f"the line starts with {quoted(times, 40)}; expected how many times the rows are to be repeated, "
                f"1 to {_MOST}"
            )
        return self._item(read_rows(words, self.bits), int(times))

    def write(self, bits: np.ndarray) -> str:
        """An answer's bits, `(rows, bits + 1)`, as words of 0 and 1; the end mark as a word."""
        return " ".join(END if row[self.bits] > 0.5 else write_row(row[: self.bits]) for row in bits)

    def rows(self, item: SequenceItem) -> list[str]:
        """A label for each row of the input: its bits, or the number of repeats."""
        times = (len(item.answer) - 1) // item.length
        return [*(write_row(row[: self.bits]) for row in item.question[:-1]), f"× {times} ?"]

    def sources(self, item: SequenceItem) -> list[int | None]:
        """The input row that each output row copies; None for the end mark."""
        return [*(step % item.length for step in range(len(item.answer) - 1)), None]

    def _item(self, rows: np.ndarray, times: int) -> SequenceItem:
        question = np.zeros((len(rows) + 1, self.inputs), np.float32)
        question[:-1, : self.bits] = rows
        question[-1, self.bits :] = 1, self._normal(times)
        answer = np.zeros((times * len(rows) + 1, self.outputs), np.float32)
        answer[:-1, : self.bits] = np.tile(rows, (times, 1))
        answer[-1, self.bits] = 1
        return SequenceItem(question, answer, len(rows))

    def _normal(self, times: int) -> float:
        """The number with the mean and the deviation of 1 … repeats taken out; deviation 0 counts as 1."""
        deviation = ((self.repeats**2 - 1) / 12) ** 0.5
        return (times - (self.repeats + 1) / 2) / (deviation or 1)
