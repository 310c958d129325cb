"""A trained model that solves its problem: for sequences that a person writes, and for those that are drawn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard.data.algorithms.problem import SequenceItem, SequenceProblem, problem
from regard.data.algorithms.sequences import SequenceBatch, Sequences
from regard.errors import DataError
from regard.metrics.bits import BitErrors
from regard.models.memory.sequences import build
from regard.tasks.algorithms.settings import AlgorithmSettings
from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.core.task import Nothing


@dataclass(frozen=True)
class Solution:
    """What a model answered.

    Attributes:
        item: the question and the right answer.
        chances: of each bit to be 1, `(steps, outputs)`.
        text: the answer as a person reads it.
        right: the right answer, likewise.
    """

    item: SequenceItem
    chances: np.ndarray
    text: str
    right: str

    @property
    def wrong(self) -> int:
        """Bits that differ from the right answer."""
        return int(((self.chances > 0.5) != (self.item.answer > 0.5)).sum())


class AlgorithmsPredictor(StreamPredictor[AlgorithmSettings, Nothing, Any, str, SequenceItem | None, str]):
    """A model and the problem that it was trained on; see `layers.sequence.SequenceModel`."""

    settings_type = AlgorithmSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Nothing:
        """It needs none."""
        return Nothing()

    @classmethod
    def build(cls, settings: AlgorithmSettings, parts: Nothing) -> Any:
        """A model of sequences with fresh weights."""
        made = problem(settings.data)
        return build(settings.model, made.inputs, made.outputs)

    @cached_property
    def problem(self) -> SequenceProblem:
        """What it was trained on."""
        return problem(self.settings.data)

    def question(self, text: str, place: str = "the text") -> SequenceItem:
        """A question as a person writes it.

        Raises:
            DataError: it is written otherwise; the message begins with the place and ends with the form.
        """
        try:
            return self.problem.read(text)
        except DataError as error:
            raise DataError(f"{place}: {error}. {self.settings.data.problem} reads {self.problem.form}") from error

    @inference
    def solve(self, items: Sequence[SequenceItem]) -> list[Solution]:
        """Answer some questions together."""
        if not items:
            return []
        batch = SequenceBatch.of(items)
        chances = zip(items, self._logits(batch).sigmoid(), batch.answer_steps, strict=True)
        answers = [(item, row[when].numpy()) for item, row, when in chances]
        return [
            Solution(item, answer, self.problem.write(answer), self.problem.write(item.answer))
            for item, answer in answers
        ]

    def stream(
        self,
        items: Iterable[str],
        *,
        origin: str = "the text",
        batch: int = 64,
        chunk: int | None = None,
        first: int = 1,
    ) -> Iterator[str]:
        """An answer for every line, in order; an empty line has an empty one.

        Args:
            items: questions as a person writes them.
            origin: what errors call them.
            batch: solved at once; it never changes an answer.
            chunk: lines read before the first answer comes; a batch by default.
            first: the number of the first line.

        Raises:
            DataError: a line is no question; the message names the origin and the line.
        """
        read = (self.read(text, line, origin) for line, text in enumerate(items, start=first))
        yield from self.in_batches(read, self.answer, batch, chunk or batch)

    def read(self, given: str, line: int = 1, origin: str = "the text") -> SequenceItem | None:
        """The question of a line; None for an empty one."""
        return self.question(given, f"{origin}, line {line}") if given.strip() else None

    def length(self, item: SequenceItem | None) -> int:
        """Questions are answered in the order in which they come, whatever their lengths; 0 for an empty line."""
        return 0 if item is None else 1

    def blank(self, item: SequenceItem | None) -> str:
        """An empty answer."""
        return ""

    def answer(self, items: list[SequenceItem | None]) -> list[str]:
        """The answers of a batch of questions as a person reads them."""
        return [one.text for one in self.solve([item for item in items if item is not None])]

    def errors(self, batches: Iterable[SequenceBatch]) -> BitErrors:
        """Wrong bits of the answers to drawn questions."""
        return bit_errors((batch, self._logits(batch)) for batch in batches)

    def held_out(self, count: int, seed: int, length: int | None = None) -> list[SequenceBatch]:
        """Test sequences, of the lengths of training or of one."""
        return Sequences(self.problem, self.settings.data, seed, "test").held_out(count, length)

    @inference
    def _logits(self, batch: SequenceBatch) -> Tensor:
        logits: Tensor = self.model(batch.inputs.to(self.device)).cpu()
        return logits


def bit_errors(answered: Iterable[tuple[SequenceBatch, Tensor]]) -> BitErrors:
    """Wrong bits of each sequence, of batches and a model's logits for them."""
    wrong: list[int] = []
    bits: list[int] = []
    for batch, logits in answered:
        rows = ((logits > 0) != (batch.answers > 0.5)) & batch.answer_steps.unsqueeze(-1)
        wrong += rows.sum((1, 2)).tolist()
        bits += (batch.answer_steps.sum(1) * batch.answers.shape[-1]).tolist()
    return BitErrors(wrong, bits)
