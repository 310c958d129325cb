"""A trained model that points: for sets of points that people write, and for those that are drawn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from regard.data.points.batches import PointBatch, PointSets
from regard.data.points.problem import Answer, PointProblem, PointSet, RoundTrip, point_problem
from regard.data.points.written import read_sets
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import DataError
from regard.models.pointing.pointer import END, PointerNetwork
from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.core.task import Nothing
from regard.tasks.pointing.settings import PointingSettings


@dataclass(frozen=True)
class Pointed:
    """What a model answered.

    Attributes:
        points: the set as it was given.
        answer: numbers of its points, from 0.
        probability: of this answer, as the model finds it.
        weights: where it pointed, `(choices made, 1 + points)`, the end first and the end's own row last; None for the
            baseline, which attends to nothing.
    """

    points: PointSet
    answer: Answer
    probability: float
    weights: np.ndarray | None


class PointingPredictor(StreamPredictor[PointingSettings, Nothing, PointerNetwork, PointSet, PointSet, Pointed]):
    """A model and the problem that it was trained on."""

    settings_type = PointingSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Nothing:
        """It needs none."""
        return Nothing()

    @classmethod
    def build(cls, settings: PointingSettings, parts: Nothing) -> PointerNetwork:
        """A pointer network with fresh weights."""
        made = point_problem(settings.data.problem)
        return PointerNetwork(settings.model, made.axes, made.rule, settings.data.longest)

    @cached_property
    def problem(self) -> PointProblem:
        """What it was trained on."""
        return point_problem(self.settings.data.problem)

    @inference
    def choose(self, sets: Sequence[PointSet], beam: int = 1) -> list[Pointed]:
        """Answer some sets together; of a beam's tours the shortest is taken.

        Args:
            sets: of any sizes.
            beam: hypotheses kept at each step; 1 is greedy.
        """
        if not sets:
            return []
        batch = PointBatch.of(sets).to(self.device)
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

    def stream(
        self, items: Iterable[PointSet], *, beam: int = 1, batch: int = 64, chunk: int | None = None, first: int = 1
    ) -> Iterator[Pointed]:
        """An answer for every set, in order; `sets` reads them from a file.

        Args:
            items: sets of points.
            beam: see `choose`.
            batch: answered at once; it never changes an answer.
            chunk: sets read before the first answer comes; a batch by default.
            first: the number of the first set.
        """
        yield from self.in_batches(self.read_all(items, first), partial(self.choose, beam=beam), batch, chunk or batch)

    def sets(self, lines: Iterable[str], origin: str) -> Iterator[PointSet]:
        """The sets that the lines of a file stand for, see `data.points.written`.

        Args:
            lines: of the file.
            origin: what errors call it.

        Raises:
            DataError: a line is no point; the message names the origin and the line.
        """
        return read_sets(lines, self.problem, origin)

    def read(self, given: PointSet, line: int = 1) -> PointSet:
        """A set as it is."""
        return given

    def length(self, item: PointSet) -> int:
        """Sets are answered in the order in which they come, whatever their sizes."""
        return 1

    def answer(self, items: list[PointSet]) -> list[Pointed]:
        """The greedy answers of a batch of sets."""
        return self.choose(items)

    def blank(self, item: PointSet) -> Pointed:
        """There is none: every set has an answer.

        Raises:
            AssertionError: always.
        """
        raise AssertionError("no set is blank")

    def one(self, text: str) -> Pointed:
        """The answer for the one set of a text.

        Raises:
            DataError: the text has no set of points, or several.
        """
        sets = list(self.sets(text.splitlines(), "the text"))
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
