"""Points in the plane: hulls and triangulations, areas, and the canonical order of an answer."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import ConvexHull, Delaunay, QhullError

from regard.errors import DataError

Points = Float[np.ndarray, "points 2"]


def leftmost_first(points: Points) -> Int[np.ndarray, " points"]:
    """The points' numbers from left to right, of equal ones the lowest first.

    Points that are equal in single precision, which the model reads, count as equal: otherwise a triangulation would be
    put in an order that the model's own ranks rule out, with a loss of infinity.
    """
    read = normalized(points).astype(np.float32)
    order: np.ndarray = np.lexsort((read[:, 1], read[:, 0]))
    return order


def normalized(points: Float[np.ndarray, "points axes"]) -> Float[np.ndarray, "points axes"]:
    """Moved and scaled, alike on all axes, so that they just fit into the unit square; no answer changes by it."""
    low = points.min(0)
    size = float((points.max(0) - low).max())
    return (points - low) / (size or 1.0)


def hull(points: Points) -> list[int]:
    """The corners of the convex hull, from the leftmost one counter-clockwise.

    Raises:
        DataError: the points lie on one line.
    """
    try:
        corners = ConvexHull(points).vertices.tolist()  # counter-clockwise in the plane
    except QhullError as error:
        raise DataError("the points lie on one line (or are the same), so they have no hull with an area") from error
    return around(points, corners)


def delaunay(points: Points) -> list[tuple[int, int, int]]:
    """The triangles of the Delaunay triangulation, corners and triangles from left to right (see `ordered`).

    Raises:
        DataError: the points lie on one line.
    """
    try:
        triangles = Delaunay(points).simplices.tolist()
    except QhullError as error:
        raise DataError("the points lie on one line (or are the same), so they have no triangulation") from error
    return ordered(points, triangles)


def around(points: Points, cycle: Sequence[int]) -> list[int]:
    """The same polygon, from its leftmost point counter-clockwise."""
    walk = list(cycle)
    if signed_area(points[walk]) < 0:
        walk.reverse()
    rank = leftmost_first(points).argsort()
    start = min(range(len(walk)), key=lambda place: rank[walk[place]])
    return walk[start:] + walk[:start]


def ordered(points: Points, triangles: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """Each triangle's corners from left to right, and the triangles in the order of their corners."""
    rank, order = leftmost_first(points).argsort(), leftmost_first(points)
    ranks = sorted(tuple(sorted(int(rank[corner]) for corner in triangle)) for triangle in triangles)
    return [(int(order[a]), int(order[b]), int(order[c])) for a, b, c in ranks]


def signed_area(polygon: Points) -> float:
    """The signed area of a polygon, positive counter-clockwise."""
    x, y = (polygon - polygon.mean(0)).T if len(polygon) else (np.zeros(0), np.zeros(0))
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def is_simple(polygon: Points) -> bool:
    """Whether no two sides of a polygon cross."""
    count = len(polygon)
    sides = [(polygon[at], polygon[(at + 1) % count]) for at in range(count)]
    for one in range(count):
        for other in range(one + 2, count):
            if (one, other) != (0, count - 1) and _cross(*sides[one], *sides[other]):
                return False
    return True


def _cross(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> bool:
    """Whether the lines from a to b and from c to d have a point within both."""

    def side(one: np.ndarray, two: np.ndarray, three: np.ndarray) -> float:
        (ax, ay), (bx, by) = two - one, three - one
        return float(ax * by - ay * bx)

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
