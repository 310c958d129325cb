"""The problems of points: what is right, in which order it is told, and when an answer is as good.

An answer is a list of the set's numbers, from 0. Orders in which an answer is told, the same however the set is given:

| problem | an answer is | in the order |
|---|---|---|
| sort | every number once | from the largest to the smallest; of equal ones the first given |
| hull | the corners of the convex hull | from the leftmost one counter-clockwise |
| delaunay | three corners a triangle | a triangle's from left to right; triangles by their corners' order |
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
Set = np.ndarray
"""One set, `(points, axes)`; sets of several sizes stand in one list, so the sizes are not in the type."""

Answer = list[int]


class Problem:
    """The base of the four: sets of points in, answers out.

    Attributes:
        name: as in the settings.
        axes: numbers that a point has.
        rule: what an answer may be made of, whatever its points (see `models.pointing_rules`).
        measures: what an evaluation tells besides exact answers: coverage, length, or neither.
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
        """The right answer of each of some sets of one size, in the order that the module tells.

        Raises:
            DataError: points that have no answer, such as those on one line.
        """
        raise NotImplementedError

    def most(self, points: int) -> int:
        """The most choices that an answer may have, the one that ends it included."""
        return points + 1

    def is_right(self, points: Set, said: Answer, right: Answer) -> bool:
        """Whether an answer is as good as the right one."""
        return said == right

    def covered(self, points: Set, said: Answer, right: Answer) -> float:
        """How much of the right answer an answer has, from 0 to 1."""
        raise NotImplementedError

    def length(self, points: Set, said: Answer) -> float:
        """How long an answer is, walked around."""
        raise NotImplementedError

    def walks(self, said: Answer) -> list[Answer]:
        """The closed walks that draw an answer; none for numbers."""
        return [said] if said else []

    def write(self, said: Answer) -> str:
        """An answer as people read it: numbers of points, counted from 1."""
        return " ".join(str(item + 1) for item in said)


class Sort(Problem):
    """Numbers, from the largest to the smallest."""

    name, axes, rule, measures = "sort", 1, "each_once", ("coverage",)

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The numbers of the entries, largest first; of equal ones the first given."""
        order: list[Answer] = np.argsort(-sets[..., 0], axis=1, kind="stable").tolist()
        return order

    def covered(self, points: Set, said: Answer, right: Answer) -> float:
        """The share of places with the right number."""
        return sum(one == other for one, other in zip(said, right, strict=False)) / len(right)

    def walks(self, said: Answer) -> list[Answer]:
        """None: numbers are not drawn in the plane."""
        return []


class Hull(Problem):
    """The convex hull."""

    name, rule, measures = "hull", "at_most_once", ("coverage",)

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The corners of each convex hull, from the leftmost one counter-clockwise.

        Raises:
            DataError: the points of a set lie on one line.
        """
        return [geometry.hull(points) for points in sets]

    def is_right(self, points: Set, said: Answer, right: Answer) -> bool:
        """Whether it is the same polygon, wherever it begins and whichever way it goes."""
        return len(said) == len(right) and geometry.around(points, said) == right

    def covered(self, points: Set, said: Answer, right: Answer) -> float:
        """The share of the hull's area that lies within the answer; 0 if its sides cross (Vinyals 2015, table 1)."""
        if not geometry.is_simple(points[said]):
            return 0.0
        return abs(geometry.signed_area(points[said])) / geometry.signed_area(points[right])


class Triangulation(Problem):
    """The Delaunay triangulation."""

    name, rule, measures = "delaunay", "triangles", ("coverage",)

    def answers(self, sets: Float[np.ndarray, "sets points axes"]) -> list[Answer]:
        """The corners of the triangles of each Delaunay triangulation, three a triangle.

        Raises:
            DataError: the points of a set lie on one line.
        """
        return [[corner for triangle in geometry.delaunay(points) for corner in triangle] for points in sets]

    def most(self, points: int) -> int:
        """Three corners of each of at most 2n − 5 triangles (Euler), and the end."""
        return 3 * (2 * points - 5) + 1

    def is_right(self, points: Set, said: Answer, right: Answer) -> bool:
        """Whether it is the same set of triangles."""
        return sorted(_triangles(said)) == sorted(_triangles(right))

    def covered(self, points: Set, said: Answer, right: Answer) -> float:
        """The share of the right triangles that are among the answer's (Vinyals 2015, section 4.3)."""
        wanted = set(_triangles(right))
        return len(wanted & set(_triangles(said))) / len(wanted)

    def walks(self, said: Answer) -> list[Answer]:
        """The triangles, a closed walk each."""
        return [said[at : at + 3] for at in range(0, len(said), 3)]

    def write(self, said: Answer) -> str:
        """Triangles as people read them, `1,2,3 2,3,4`: numbers of points, counted from 1."""
        return " ".join(",".join(str(corner + 1) for corner in triangle) for triangle in self.walks(said))


class RoundTrip(Problem):
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

    def is_right(self, points: Set, said: Answer, right: Answer) -> bool:
        """Whether it is as short, to rounding; it may be another tour."""
        return self.length(points, said) <= self.length(points, right) * (1 + 1e-9)

    def length(self, points: Set, said: Answer) -> float:
        """How long a tour is, the way back included."""
        return float(tour_lengths(points[None], np.array([said]))[0])


PROBLEMS: dict[str, Problem] = {one.name: one for one in (Sort(), Hull(), Triangulation(), RoundTrip())}


def problem_of(name: str) -> Problem:
    """The problem of that name.

    Raises:
        ConfigError: there is none; the message names the nearest.
    """
    if name not in PROBLEMS:
        raise ConfigError(f"no problem of points is named {name!r}.{nearest(name, PROBLEMS)}")
    return PROBLEMS[name]


def answer_of(problem: Problem, points: Set) -> Answer | None:
    """The right answer of one set, or None where it has none."""
    try:
        return problem.answers(points[None])[0]
    except DataError:
        return None


def _triangles(said: Answer) -> list[tuple[int, ...]]:
    return [tuple(sorted(said[at : at + 3])) for at in range(0, len(said), 3)]
