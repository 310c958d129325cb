"""Sets of points as a run needs them: those of training and those that are held out, drawn by number."""

from collections.abc import Callable
from pathlib import Path

from regard.data.points.batches import PointBatch, PointSets
from regard.data.points.problem import Answer, PointSet, RoundTrip, point_problem
from regard.tasks.core.task import Nothing, Prepared
from regard.tasks.pointing.settings import PointingSettings

Drawn = Prepared[Nothing, PointBatch, tuple[list[PointSet], list[Answer]]]
"""The sets of a run: those of training and those held out, with their answers."""


def draw_sets(settings: PointingSettings, folder: Path | None, say: Callable[[str], None]) -> Drawn:
    """The sets that a run trains on, and those that it holds out with their answers; nothing is read or saved."""
    data, problem = settings.data, point_problem(settings.data.problem)
    validation = PointSets(problem, data, settings.seed, "validation")
    sets = [validation.points(number) for number in range(data.validation)]
    taught = RoundTrip(data.starts) if isinstance(problem, RoundTrip) else problem
    return Prepared(Nothing(), PointSets(taught, data, settings.seed, "training"), (sets, validation.answered(sets)))
