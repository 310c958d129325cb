"""Sets of points by their numbers, and batches of them: what training reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.chance import Chance
from regard.data.points.geometry import normalized
from regard.data.points.problem import Answer, PointProblem, PointSet
from regard.data.points.settings import PointData

Part = Literal["training", "validation", "test"]

IGNORED = -100
"""The target after the end of a shorter answer: no loss there."""


@dataclass(frozen=True)
class PointBatch:
    """Sets side by side, zeros after the smaller ones.

    Attributes:
        points: scaled to the unit square.
        lengths: how many of them are real.
        answers: the targets: 0 ends an answer, n is the n-th point from 1; `IGNORED` after the end.
    """

    points: Float[Tensor, "batch points axes"]
    lengths: Int[Tensor, " batch"]
    answers: Int[Tensor, "batch steps"]

    def to(self, device: torch.device | str) -> "PointBatch":
        """The same batch on another device."""
        return replace(
            self, points=self.points.to(device), lengths=self.lengths.to(device), answers=self.answers.to(device)
        )

    @staticmethod
    def of(sets: Sequence[PointSet], answers: Sequence[Answer] = ()) -> "PointBatch":
        """Sets of any sizes; without answers it serves prediction alone."""
        most = max(len(points) for points in sets)
        padded = np.zeros((len(sets), most, sets[0].shape[1]), np.float32)
        for row, points in enumerate(sets):
            padded[row, : len(points)] = normalized(points)
        steps = max((len(answer) + 1 for answer in answers), default=0)
        targets = np.full((len(sets), steps), IGNORED)
        for row, answer in enumerate(answers):
            targets[row, : len(answer) + 1] = [*(item + 1 for item in answer), 0]
        lengths = torch.tensor([len(points) for points in sets])
        return PointBatch(torch.from_numpy(padded), lengths, torch.from_numpy(targets))


class PointSets:
    """A problem's sets by number: number n is the same one whenever it is asked for, on every machine.

    Follows `training.state.Batches`. Each epoch continues the numbers, so no set is repeated. Points are drawn evenly
    from the unit square, numbers from the unit interval.

    Args:
        problem: knows the answers.
        settings: sizes and batch.
        seed: draws them, beside their numbers.
        part: training, validation and test draw differently for one seed.
    """

    def __init__(self, problem: PointProblem, settings: PointData, seed: int, part: Part) -> None:
        self.problem, self.settings, self.seed, self.part = problem, settings, seed, part

    def points(self, number: int, size: int | None = None) -> PointSet:
        """Set number n, of a drawn size or of a given one."""
        settings = self.settings
        chance = Chance("points", settings.problem, self.part, self.seed, number)
        drawn = settings.shortest + chance.below(settings.longest - settings.shortest + 1)
        shape = (drawn if size is None else size, self.problem.axes)
        return np.array([chance() for _ in range(shape[0] * shape[1])]).reshape(shape)

    def answered(self, sets: Sequence[PointSet]) -> list[Answer]:
        """The right answer of each set; those of one size are found together."""
        answers: list[Answer] = [[] for _ in sets]
        for size in sorted({len(points) for points in sets}):
            places = [place for place, points in enumerate(sets) if len(points) == size]
            found = self.problem.answers(np.stack([sets[place] for place in places]))
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return answers

    def plan(self, epoch: int) -> list[list[int]]:
        """The numbers of the sets in each batch of an epoch."""
        count, batch = self.settings.sets, self.settings.batch
        first = epoch * count
        return [list(range(first + start, first + min(start + batch, count))) for start in range(0, count, batch)]

    def load(self, indices: list[int]) -> PointBatch:
        """The sets of these numbers as one batch, with their right answers."""
        sets = [self.points(number) for number in indices]
        return PointBatch.of(sets, self.answered(sets))
