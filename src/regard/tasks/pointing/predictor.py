"""A trained model that points: for sets of points that people write, and for those that are drawn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.points.batches import PointBatch, PointSets
from regard.data.points.problem import Answer, PointProblem, PointSet, RoundTrip, point_problem
from regard.data.points.written import read_sets
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import DataError
from regard.models.pointing.pointer import END, PointerNetwork
from regard.tasks.core.config import check
from regard.tasks.core.runs import open_run
from regard.tasks.pointing.settings import PointingSettings
from regard.training.run.checkpoint import load_weights


@dataclass(frozen=True)
class Pointed:
    """What a model answered.

    Attributes:
        points: the set as it was given.
        answer: numbers of its points, from 0.
        probability: of this answer, as the model finds it.
        weights: where it pointed, `(choices made, 1 + points)`, the end first and the end's own row last; None for the
            baseline, which looks at nothing.
    """

    points: PointSet
    answer: Answer
    probability: float
    weights: np.ndarray | None


class Pointer:
    """A model and the problem that it was trained on.

    Args:
        model: in any mode; it is put into eval mode to answer.
        settings: of its run.
    """

    def __init__(self, model: PointerNetwork, settings: PointingSettings) -> None:
        self.model, self.settings = model, settings
        self.problem: PointProblem = point_problem(settings.data.problem)

    @torch.no_grad()
    def choose(self, sets: Sequence[PointSet], beam: int = 1) -> list[Pointed]:
        """Answer some sets together; of a beam's tours the shortest is taken.

        Args:
            sets: of any sizes.
            beam: hypotheses kept at each step; 1 is greedy.
        """
        if not sets:
            return []
        self.model.eval()
        batch = PointBatch.of(sets).to(next(self.model.parameters()).device)
        # Answers are compared by their probabilities as they are: a longer one is not favoured.
        settings = SearchSettings(beam=beam, n_best=beam, length_penalty=0.0)
        found = search(
            self.model.decoder,
            self.model.encode(batch.points, batch.lengths),
            len(sets),
            begin=END,
            end=END,
            settings=settings,
            limits=[self.problem.most(len(points)) for points in sets],
            source_lengths=batch.lengths + 1,
        )
        return [self._pointed(points, hypotheses) for points, hypotheses in zip(sets, found, strict=True)]

    def stream(self, lines: Iterable[str], origin: str, beam: int = 1, together: int = 64) -> Iterator[Pointed]:
        """An answer for every set of a file, in order.

        Args:
            lines: of the file, see `data.points.written`.
            origin: what errors call it.
            beam: see `choose`.
            together: answered at once; it never changes an answer.

        Raises:
            DataError: a line is no point; the message names the origin and the line.
        """
        sets = read_sets(lines, self.problem, origin)
        while chunk := list(islice(sets, together)):
            yield from self.choose(chunk, beam)

    def one(self, text: str) -> Pointed:
        """The answer for the one set of a text."""
        sets = list(read_sets(text.splitlines(), self.problem, "the text"))
        if len(sets) != 1:
            raise DataError(f"the text has {len(sets)} sets of points; one is expected here")
        return self.choose(sets)[0]

    def held_out(self, count: int, seed: int, size: int) -> tuple[list[PointSet], list[Answer]]:
        """Test sets of one size, and their right answers."""
        drawn = PointSets(self.problem, self.settings.data, seed, "test")
        sets = [drawn.points(number, size) for number in range(count)]
        return sets, drawn.answered(sets)

    def _pointed(self, points: PointSet, hypotheses: list[Hypothesis]) -> Pointed:
        best = hypotheses[0]
        if isinstance(self.problem, RoundTrip):
            best = min(hypotheses, key=lambda one: self.problem.length(points, [item - 1 for item in one.ids]))
        weights = None if best.alignment is None else best.alignment.numpy()
        return Pointed(points, [item - 1 for item in best.ids], float(np.exp(best.log_probability)), weights)


def build(settings: PointingSettings) -> PointerNetwork:
    """The model that the settings say, with fresh weights."""
    problem = point_problem(settings.data.problem)
    return PointerNetwork(settings.model, problem.axes, problem.rule, settings.data.longest)


def load_pointer(folder: str | Path) -> Pointer:
    """The pointer of a run folder, with its best weights.

    Raises:
        RunError: there is no run, or no weights yet, or they are damaged.
        ConfigError: the run's settings cannot be used.
    """
    run = open_run(folder)
    settings = check(PointingSettings, run.read_config())
    model: Any = build(settings)
    load_weights(model, run.weights)
    return Pointer(model, settings)
