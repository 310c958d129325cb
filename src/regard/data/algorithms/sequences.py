"""Sequences by their numbers, and batches of them: what training reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.data.algorithms.problem import SequenceItem, SequenceProblem
from regard.data.algorithms.settings import SequencesSettings
from regard.data.chance import Chance

Part = Literal["training", "validation", "test"]


@dataclass(frozen=True)
class SequenceBatch:
    """Sequences side by side, zeros after the shorter ones.

    Attributes:
        inputs: rows of the questions; zeros afterwards.
        answers: the target bits at the answer steps, 0 elsewhere.
        answer_steps: the time steps whose outputs are the answer.
        lengths: of each sequence, as its problem counts.
    """

    inputs: Float[Tensor, "batch time inputs"]
    answers: Float[Tensor, "batch time outputs"]
    answer_steps: Bool[Tensor, "batch time"]
    lengths: list[int]

    def to(self, device: torch.device | str) -> "SequenceBatch":
        """The same batch on another device."""
        return replace(
            self,
            inputs=self.inputs.to(device),
            answers=self.answers.to(device),
            answer_steps=self.answer_steps.to(device),
        )

    @staticmethod
    def of(items: Sequence[SequenceItem]) -> "SequenceBatch":
        """Sequences of any lengths side by side."""
        time = max(item.time for item in items)
        first = items[0]
        inputs = np.zeros((len(items), time, first.question.shape[1]), np.float32)
        answers = np.zeros((len(items), time, first.answer.shape[1]), np.float32)
        answer_steps = np.zeros((len(items), time), bool)
        for row, item in enumerate(items):
            inputs[row, : len(item.question)] = item.question
            answers[row, item.answer_steps], answer_steps[row, item.answer_steps] = item.answer, True
        given, wanted, when = map(torch.from_numpy, (inputs, answers, answer_steps))
        return SequenceBatch(given, wanted, when, [item.length for item in items])


class Sequences:
    """A problem's sequences by number: number n is the same one whenever it is asked for, on every machine.

    Follows `training.state.Batches`. Each epoch continues the numbers, so no sequence is repeated.

    Args:
        problem: makes them.
        settings: lengths and batch.
        seed: draws them, beside their numbers.
        part: training, validation and test draw differently for one seed; short sequences may still be the same.
    """

    def __init__(self, problem: SequenceProblem, settings: SequencesSettings, seed: int, part: Part) -> None:
        self.problem, self.settings, self.seed, self.part = problem, settings, seed, part

    def item(self, number: int, length: int | None = None) -> SequenceItem:
        """Sequence number n, of a drawn length or of a given one."""
        settings = self.settings
        chance = Chance("algorithms", settings.problem, self.part, self.seed, number)
        drawn = settings.shortest + chance.below(settings.longest - settings.shortest + 1)
        return self.problem.draw(chance, drawn if length is None else length)

    def plan(self, epoch: int) -> list[list[int]]:
        """The numbers of the sequences in each batch of an epoch."""
        count, batch = self.settings.sequences, self.settings.batch
        first = epoch * count
        return [list(range(first + start, first + min(start + batch, count))) for start in range(0, count, batch)]

    def load(self, indices: list[int]) -> SequenceBatch:
        """The sequences of these numbers as one batch."""
        return SequenceBatch.of([self.item(number) for number in indices])

    def held_out(self, count: int, length: int | None = None, together: int = 100) -> list[SequenceBatch]:
        """The first `count` sequences in batches, of drawn lengths or all of one."""
        items = [self.item(number, length) for number in range(count)]
        return [SequenceBatch.of(items[at : at + together]) for at in range(0, count, together)]
