"""How good answers about sets of points are, by size."""

from pathlib import Path
from typing import Any

from regard.data.points.problem import Answer, PointSet, RoundTrip
from regard.data.points.settings import LEAST
from regard.data.points.tours import nearest_neighbour_tours
from regard.errors import ConfigError
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.pointing.predictor import PointingPredictor
from regard.tasks.pointing.settings import PointingSettings, TestedPoints

TOGETHER = 250


def answers_of(pointer: PointingPredictor, sets: list[PointSet], beam: int) -> list[Answer]:
    """The answers of a model to some sets, so many together that a beam of any width has room."""
    together = max(1, TOGETHER // beam)
    chunks = (sets[at : at + together] for at in range(0, len(sets), together))
    return [one.answer for chunk in chunks for one in pointer.choose(chunk, beam)]


def measured(
    pointer: PointingPredictor, sets: list[PointSet], answers: list[Answer], said: list[Answer]
) -> dict[str, float]:
    """How good answers are.

    Exact is the share of those as good as the right one. Coverage is the mean share of a right answer that was given
    (see each problem's `covered`). Length is the mean length of the tours over that of the right ones.
    """
    problem = pointer.problem
    rows = list(zip(sets, said, answers, strict=True))
    metrics = {"exact": sum(problem.is_correct(*row) for row in rows) / len(rows)}
    if "coverage" in problem.measures:
        metrics["coverage"] = sum(problem.coverage(*row) for row in rows) / len(rows)
    if isinstance(problem, RoundTrip):
        walked, shortest = (
            sum(problem.length(points, tour) for points, tour in zip(sets, tours, strict=True))
            for tours in (said, answers)
        )
        metrics["length"] = walked / shortest
    return metrics


def evaluate_run(pointer: PointingPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Answer drawn sets of each size and compare with the right answers; see `measured`.

    Args:
        pointer: of the run.
        run: its folder.
        test: values of `TestedPoints`; {} for what the run held out.

    Raises:
        ConfigError: a size is too small for the problem.
    """
    tested, data = check(TestedPoints, test), pointer.settings.data
    sizes = list(range(data.shortest, data.longest + 1)) if tested.sizes is None else tested.sizes
    if min(sizes) < LEAST[data.problem]:
        raise ConfigError(f"sizes: {data.problem} begins with sets of {LEAST[data.problem]}; given {min(sizes)}")
    rows: list[dict[str, Any]] = []
    near: list[float] = []
    for size in sizes:
        sets, answers = pointer.held_out(tested.sets, tested.seed, size)
        metrics = measured(pointer, sets, answers, answers_of(pointer, sets, tested.beam))
        rows.append({"points": str(size), "sets": tested.sets, **metrics})
        if isinstance(pointer.problem, RoundTrip):
            tours = [nearest_neighbour_tours(points[None])[0].tolist() for points in sets]
            near.append(measured(pointer, sets, answers, tours)["length"])
    names = [name for name in rows[0] if name in PointingSettings.measures]
    measures = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    for name, size in (("exact_shortest", data.shortest), ("exact_longest", data.longest)):
        if size in sizes:
            measures[name] = rows[sizes.index(size)]["exact"]
    return Evaluation(
        items=tested.sets * len(rows),
        unit="sets",
        measures=measures,
        baselines={"nearest_neighbour": sum(near) / len(near)} if near else {},
        baselined="length" if near else "",
        by="points",
        lengths=rows,
    )
