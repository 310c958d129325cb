"""A trained model that solves its problem: for sequences that a person writes, and for those that are drawn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.algorithms.problem import SequenceItem, problem
from regard.data.algorithms.sequences import SequenceBatch, Sequences
from regard.errors import DataError
from regard.metrics.bits import BitErrors
from regard.models.memory.sequences import build
from regard.tasks.algorithms.settings import AlgorithmSettings
from regard.tasks.core.config import check
from regard.tasks.core.runs import open_run
from regard.training.run.checkpoint import load_weights


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


class Solver:
    """A model and the problem that it was trained on.

    Args:
        model: see `layers.sequence.SequenceModel`.
        settings: of its run.
    """

    def __init__(self, model: Any, settings: AlgorithmSettings) -> None:
        self.model, self.settings = model, settings
        self.problem = problem(settings.data)

    def read(self, text: str, place: str = "the text") -> SequenceItem:
        """A question as a person writes it.

        Raises:
            DataError: it is written otherwise; the message begins with the place and ends with the form.
        """
        try:
            return self.problem.read(text)
        except DataError as error:
            raise DataError(f"{place}: {error}. {self.settings.data.problem} reads {self.problem.form}") from error

    def solve(self, items: Sequence[SequenceItem]) -> list[Solution]:
        """Answer some questions together."""
        return [
            Solution(item, chances, self.problem.write(chances), self.problem.write(item.answer))
            for item, chances in zip(items, self._answers(SequenceBatch.of(items)) if items else [], strict=True)
        ]

    def stream(self, lines: Iterable[str], origin: str, together: int = 64) -> Iterator[str]:
        """An answer for every line, in order; an empty line has an empty one.

        Args:
            lines: questions as a person writes them.
            origin: what errors call them.
            together: solved at once; it never changes an answer.

        Raises:
            DataError: a line is no question; the message names the origin and the line.
        """
        numbered = iter(enumerate(lines, 1))
        while chunk := list(islice(numbered, together)):
            items = {number: self.read(line, f"{origin}, line {number}") for number, line in chunk if line.strip()}
            solved = dict(zip(items, self.solve(list(items.values())), strict=True))
            for number, _ in chunk:
                yield solved[number].text if number in solved else ""

    def errors(self, batches: Iterable[SequenceBatch]) -> BitErrors:
        """Wrong bits of the answers to drawn questions."""
        return bit_errors((batch, self._logits(batch)) for batch in batches)

    def held_out(self, count: int, seed: int, length: int | None = None) -> list[SequenceBatch]:
        """Test sequences, of the lengths of training or of one."""
        return Sequences(self.problem, self.settings.data, seed, "test").held_out(count, length)

    def _answers(self, batch: SequenceBatch) -> list[np.ndarray]:
        chances = self._logits(batch).sigmoid()
        return [row[when].numpy() for row, when in zip(chances, batch.answer_steps, strict=True)]

    @torch.no_grad()
    def _logits(self, batch: SequenceBatch) -> Tensor:
        self.model.eval()
        device = next(self.model.parameters()).device
        logits: Tensor = self.model(batch.inputs.to(device)).cpu()
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


def load_solver(folder: str | Path) -> Solver:
    """The solver of a run folder, with its best weights.

    Raises:
        RunError: there is no run, or no weights yet, or they are damaged.
        ConfigError: the run's settings cannot be used.
    """
    run = open_run(folder)
    settings = check(AlgorithmSettings, run.read_config())
    made = problem(settings.data)
    model: Any = build(settings.model, made.inputs, made.outputs)
    load_weights(model, run.weights)
    return Solver(model, settings)
