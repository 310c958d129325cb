"""A problem of sequences with a known answer: what each of them offers, and the parts they share."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from regard.data.chance import Chance
from regard.errors import ConfigError, DataError, nearest, quoted


class SequenceItem(NamedTuple):
    """One sequence: the input row by row, then steps of zeros during which the answer is the output.

    Attributes:
        question: `(steps, inputs)`.
        answer: `(steps, outputs)`, bits.
        length: what the problem counts as its length.
        within: the steps of the question at which the answer is output; if none, it follows the question.
    """

    question: np.ndarray
    answer: np.ndarray
    length: int
    within: tuple[int, ...] = ()

    @property
    def answer_steps(self) -> np.ndarray:
        """The time step of each row of the answer."""
        behind = np.arange(len(self.question), len(self.question) + len(self.answer))
        return np.array(self.within) if self.within else behind

    @property
    def time(self) -> int:
        """How many time steps there are."""
        return max(len(self.question), int(self.answer_steps.max(initial=-1)) + 1)


@runtime_checkable
class SequenceProblem(Protocol):
    """An algorithm to be learned: `Class(settings)`.

    Attributes:
        inputs: width of the rows of a question.
        outputs: width of the rows of an answer.
        form: how a person writes a question, in a few words.
    """

    inputs: int
    outputs: int
    form: str

    def draw(self, chance: Chance, length: int) -> SequenceItem:
        """A question of that length."""
        ...

    def read(self, text: str) -> SequenceItem:
        """A question as a person writes it.

        Raises:
            DataError: it is written otherwise; the message says what stands where.
        """
        ...

    def write(self, bits: np.ndarray) -> str:
        """An answer's bits `(steps, outputs)` as text."""
        ...

    def rows(self, item: SequenceItem) -> list[str]:
        """A short label for each row of a question."""
        ...

    def sources(self, item: SequenceItem) -> list[int | None]:
        """For each row of the answer the row of the question that it is, or None."""
        ...


_PROBLEMS = {
    "copy": ("regard.data.algorithms.copy", "Copy"),
    "repeat_copy": ("regard.data.algorithms.copy", "RepeatCopy"),
    "recall": ("regard.data.algorithms.recall", "Recall"),
    "count_and_recall": ("regard.data.algorithms.count_and_recall", "CountAndRecall"),
    "reuse_copy": ("regard.data.algorithms.reuse", "ReuseCopy"),
    "priority_sort": ("regard.data.algorithms.sort", "PrioritySort"),
}


def problem(settings: Any) -> SequenceProblem:
    """The problem that the settings are of.

    Raises:
        ConfigError: there is none of that name.
    """
    if settings.problem not in _PROBLEMS:
        raise ConfigError(f"no problem is named {settings.problem!r}.{nearest(settings.problem, _PROBLEMS)}")
    module, name = _PROBLEMS[settings.problem]
    made: SequenceProblem = getattr(import_module(module), name)(settings)
    return made


def draw_bits(chance: Chance, rows: int, bits: int) -> np.ndarray:
    """Rows of bits, `(rows, bits)`, each 0 or 1 equally often."""
    flat = [chance() < 0.5 for _ in range(rows * bits)]
    return np.array(flat, dtype=np.float32).reshape(rows, bits)


def read_rows(words: Sequence[str], bits: int) -> np.ndarray:
    """Words such as 01100111 as rows of bits, `(rows, bits)`.

    Raises:
        DataError: there are none, or one is not of that many bits.
    """
    if not words:
        raise DataError(f"there are no rows; each is written as {bits} bits, such as {'01' * bits:.{bits}}")
    for number, word in enumerate(words, 1):
        if len(word) != bits or set(word) - {"0", "1"}:
            raise DataError(f"row {number} is {quoted(word)}; expected {bits} bits, such as {'01' * bits:.{bits}}")
    return np.array([[float(bit) for bit in word] for word in words], dtype=np.float32)


def write_row(row: np.ndarray) -> str:
    """A row of bits, `(bits,)`, as a word."""
    return "".join("1" if bit > 0.5 else "0" for bit in row)
