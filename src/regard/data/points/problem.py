"""The problems of points: the target answers, their order, and when another answer is as good.

An answer is a list of the set's numbers, from 0. The order of a target is the same however the set is given:

| problem | an answer is | in the order |
|---|---|---|
| sort | every number once | from the largest to the smallest; of equal ones the first given |
| hull | the corners of the convex hull | from the leftmost one counter-clockwise |
| delaunay | three corners per triangle | a triangle's from left to right; triangles by their corners' order |
| tsp | every point once, and back to the first | from the leftmost one counter-clockwise |

"Leftmost" is by x, of equal ones the lowest.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float

from regard.data.points import geometry
from regard.data.points.settings import LEAST
from regard.data.points.tours import shortest_tours, tour_lengths
from regard.errors import ConfigError, DataError, nearest

Rule = Literal["each_once", "at_most_once", "triangles"]
PointSet = np.ndarray
"""One set, `(points, axes)`; sets of several sizes stand in one list, so the sizes are not in the type."""

Answer = list[int]


class PointProblem:
    """The base of the four: sets of points in, answers out.

    Attributes:
        name: as in the settings.
        axes: numbers that a point has.
        rule: what an answer may be made of, whatever its points (see `models.pointing_rules`).
        measures: what an evaluation measures besides exact answers: coverage, length, or neither.
    """

    name: str
    axes: int = 2
    rule: Rule
    measures: tuple[str, ...] = ()

    @property
    def least(self) -> int:
        """The fewest points of a set."""
        return LEAST[self.name]

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The target of each of some sets of one size, in the order of the table above.

        Raises:
            DataError: points that have no answer, such as those on one line.
        """
        raise NotImplementedError

    def most(self, points: int) -> int:
        """The most choices that an answer may have, the one that ends it included."""
        return points + 1

    def is_correct(self, points: PointSet, predicted: Answer, target: Answer) -> bool:
        """Whether a predicted answer is as good as the target."""
        return predicted == target

    def coverage(self, points: PointSet, predicted: Answer, target: Answer) -> float:
        """How much of the target a predicted answer covers, from 0 to 1."""
        raise NotImplementedError

    def length(self, points: PointSet, predicted: Answer) -> float:
        """The length of an answer as a closed tour."""
        raise NotImplementedError

    def cycles(self, predicted: Answer) -> list[Answer]:
        """The closed polygons that draw an answer; none for numbers."""
        return [predicted] if predicted else []

    def write(self, predicted: Answer) -> str:
        """An answer as people read it: numbers of points, counted from 1."""
        return " ".join(str(item + 1) for item in predicted)


class Sort(PointProblem):
    """Numbers, from the largest to the smallest."""

    name, axes, rule, measures = "sort", 1, "each_once", ("coverage",)

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The numbers of the entries, largest first; of equal ones the first given."""
        order: list[Answer] = np.argsort(-sets[..., 0], axis=1, kind="stable").tolist()
        return order

    def coverage(self, points: PointSet, predicted: Answer, target: Answer) -> float:
        """The share of positions with the right number."""
        return sum(one == other for one, other in zip(predicted, target, strict=False)) / len(target)

    def cycles(self, predicted: Answer) -> list[Answer]:
        """None: numbers are not drawn in the plane."""
        return []


class Hull(PointProblem):
    """The convex hull."""

    name, rule, measures = "hull", "at_most_once", ("coverage",)

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The corners of each convex hull, from the leftmost one counter-clockwise.

        Raises:
            DataError: the points of a set lie on one line.
        """
        return [geometry.hull(points) for points in sets]

    def is_correct(self, points: PointSet, predicted: Answer, target: Answer) -> bool:
        """Whether it is the same polygon, wherever it begins and whichever way it goes."""
        return len(predicted) == len(target) and geometry.around(points, predicted) == target

    def coverage(self, points: PointSet, predicted: Answer, target: Answer) -> float:
        """The share of the hull's area that lies within the answer; 0 if its sides cross (Vinyals 2015, table 1)."""
        if not geometry.is_simple(points[predicted]):
            return 0.0
        return abs(geometry.signed_area(points[predicted])) / geometry.signed_area(points[target])


class Triangulation(PointProblem):
    """The Delaunay triangulation."""

    name, rule, measures = "delaunay", "triangles", ("coverage",)

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The corners of the triangles of each Delaunay triangulation, three per triangle.

        Raises:
            DataError: the points of a set lie on one line.
        """
        return [[corner for triangle in geometry.delaunay(points) for corner in triangle] for points in sets]

    def most(self, points: int) -> int:
        """Three corners of each of at most 2n − 5 triangles (Euler), and the end."""
        return 3 * (2 * points - 5) + 1

    def is_correct(self, points: PointSet, predicted: Answer, target: Answer) -> bool:
        """Whether it is the same set of triangles."""
        return sorted(_triangles(predicted)) == sorted(_triangles(target))

    def coverage(self, points: PointSet, predicted: Answer, target: Answer) -> float:
        """The share of the right triangles that are among the answer's (Vinyals 2015, section 4.3)."""
        wanted = set(_triangles(target))
        return len(wanted & set(_triangles(predicted))) / len(wanted)

    def cycles(self, predicted: Answer) -> list[Answer]:
        """The triangles, one polygon each."""
        return [predicted[at : at + 3] for at in range(0, len(predicted), 3)]

    def write(self, predicted: Answer) -> str:
        """Triangles as people read them, `1,2,3 2,3,4`: numbers of points, counted from 1."""
        return " ".join(",".join(str(corner + 1) for corner in triangle) for triangle in self.cycles(predicted))


class RoundTrip(PointProblem):
    """The travelling salesman's problem: a round trip through all points, as short as can be.

    Args:
        starts: of more than 12 points, from how many of them short tours are sought; all unless given.
    """

    name, rule, measures = "tsp", "each_once", ("length",)

    def __init__(self, starts: int | None = None) -> None:
        self.starts = starts

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The shortest tours: exact up to 12 points, else the best found by exchanges."""
        tours = shortest_tours(sets, self.starts).tolist()
        return [geometry.around(points, tour) for points, tour in zip(sets, tours, strict=True)]

    def is_correct(self, points: PointSet, predicted: Answer, target: Answer) -> bool:
        """Whether it is as short, to rounding; it may be another tour."""
        return self.length(points, predicted) <= self.length(points, target) * (1 + 1e-9)

    def length(self, points: PointSet, predicted: Answer) -> float:
        """How long a tour is, the way back included."""
        return float(tour_lengths(points[None], np.array([predicted]))[0])


PROBLEMS: dict[str, PointProblem] = {one.name: one for one in (Sort(), Hull(), Triangulation(), RoundTrip())}


def point_problem(name: str) -> PointProblem:
    """The problem of that name.

    Raises:
        ConfigError: there is none; the message names the nearest.
    """
    if name not in PROBLEMS:
        raise ConfigError(f"no problem of points is named {name!r}.{nearest(name, PROBLEMS)}")
    return PROBLEMS[name]


def answer_of(problem: PointProblem, points: PointSet) -> Answer | None:
    """The right answer of one set, or None where it has none."""
    try:
        return problem.answers(points[None])[0]
    except DataError:
        return None


def _triangles(predicted: Answer) -> list[tuple[int, ...]]:
    return [tuple(sorted(predicted[at : at + 3])) for at in range(0, len(predicted), 3)]
