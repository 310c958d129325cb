"""Round trips: the shortest by an exact dynamic programme, a short one by exchanges, and how long one is.

All functions take many sets of one size at once: `(sets, points, 2)`.
"""

import numpy as np
from jaxtyping import Float, Int

from regard.errors import DataError

EXACT_UP_TO = 12
"""The most points of which the shortest trip is known for certain; with 13 the tables would not fit the caches."""

Points = Float[np.ndarray, "sets points 2"]
Tours = Int[np.ndarray, "sets points"]


def distances(points: Points) -> Float[np.ndarray, "sets points points"]:
    """The Euclidean distance of each pair of points."""
    found: np.ndarray = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
    return found


def tour_lengths(points: Points, tours: Tours) -> Float[np.ndarray, " sets"]:
    """The length of each closed tour."""
    walked = np.take_along_axis(points, tours[..., None], axis=1)
    lengths: np.ndarray = np.linalg.norm(walked - np.roll(walked, -1, axis=1), axis=-1).sum(-1)
    return lengths


def shortest_tours(points: Points, starts: int | None = None) -> Tours:
    """The shortest tours: exact up to 12 points (Held & Karp 1962), by exchanges from so many starts beyond."""
    return exact_tours(points) if points.shape[1] <= EXACT_UP_TO else good_tours(points, starts)


def exact_tours(points: Points) -> Tours:
    """The shortest tours, by the dynamic programme of Held & Karp (1962) over all subsets of the points.

    Point 0 is the start; `cost[S, j]` is the shortest way from it through all of S that ends at j ∈ S.

    Raises:
        DataError: more than 12 points.
    """
    sets, count, _ = points.shape
    if count > EXACT_UP_TO:
        raise DataError(f"the exact tour of {count} points takes too long; at most {EXACT_UP_TO}")
    others = count - 1
    if others < 1:
        return np.zeros((sets, count), np.int64)
    # Sets lie along the last axis, so that a minimum over the points before the end is one pass over whole rows.
    distance = distances(points).transpose(1, 2, 0)
    between, first = distance[1:, 1:], distance[0, 1:]
    subsets = np.arange(1 << others)
    sizes = np.array([int(subset).bit_count() for subset in subsets])
    cost = np.full((others, 1 << others, sets), np.inf)
    before = np.zeros((others, 1 << others, sets), np.int8)
    for end in range(others):
        cost[end, 1 << end] = first[end]
    for size in range(2, others + 1):
        for end in range(others):
            reached = subsets[(sizes == size) & (subsets >> end & 1 == 1)]
            shortest = cost[end, reached]
            last = before[end, reached]
            for point in range(others):
                way = cost[point, reached ^ (1 << end)] + between[point, end]
                better = way < shortest
                shortest[better], last[better] = way[better], point
            cost[end, reached], before[end, reached] = shortest, last
    rows = np.arange(sets)
    left = np.full(sets, (1 << others) - 1)
    end = (cost[:, -1] + first).argmin(0)
    tours = np.zeros((sets, count), np.int64)
    for place in range(others, 0, -1):
        tours[:, place] = end + 1
        left, end = left ^ (1 << end), before[end, left, rows].astype(np.int64)
    return tours


def good_tours(points: Points, starts: int | None = None) -> Tours:
    """Short tours: from each of some starts the nearest neighbour's tour, improved by exchanges; the best of them.

    An exchange reverses a segment of the tour (2-opt, Croes 1958) or moves up to three points elsewhere (Or 1976);
    the best one is made until none helps.

    Args:
        points: of one size.
        starts: how many of the points the tours begin from; all of them unless given.
    """
    sets, count, _ = points.shape
    if count < 4:
        return np.tile(np.arange(count), (sets, 1))
    starts = count if starts is None else min(starts, count)
    distance = distances(points).repeat(starts, axis=0)
    tours = _improved(_nearest_neighbours(distance, np.tile(np.arange(starts), sets)), distance)
    lengths = tour_lengths(points.repeat(starts, axis=0), tours).reshape(sets, starts)
    best: np.ndarray = tours.reshape(sets, starts, count)[np.arange(sets), lengths.argmin(1)]
    return best


def nearest_neighbour_tours(points: Points) -> Tours:
    """From the first point always on to the nearest one that is left: the greedy baseline."""
    return _nearest_neighbours(distances(points), np.zeros(len(points), np.int64))


def _nearest_neighbours(distance: np.ndarray, start: np.ndarray) -> np.ndarray:
    rows, count = np.arange(len(distance)), distance.shape[1]
    tours = np.zeros((len(distance), count), np.int64)
    visited = np.zeros((len(distance), count), bool)
    tours[:, 0], visited[rows, start] = start, True
    for place in range(1, count):
        here = np.where(visited, np.inf, distance[rows, tours[:, place - 1]]).argmin(-1)
        tours[:, place], visited[rows, here] = here, True
    return tours


def _improved(tours: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Every tour with its best exchange made, again and again; those that none helps drop out."""
    tours, active = tours.copy(), np.arange(len(tours))
    while active.size:
        mine, far = tours[active], distance[active]
        candidates = [_two_opt(mine, far), *(_or_opt(mine, far, length) for length in (1, 2, 3))]
        gains = np.stack([gain for gain, _ in candidates])
        best = gains.argmax(0)
        better = gains.max(0) > 1e-9
        chosen = np.stack([tour for _, tour in candidates])[best, np.arange(len(mine))]
        active, chosen = active[better], chosen[better]
        tours[active] = chosen
    return tours


def _two_opt(tours: np.ndarray, distance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The length that the best reversal of a segment saves, and the tours after it (2-opt)."""
    rows, count = np.arange(len(tours))[:, None, None], tours.shape[1]
    here, after = tours, np.roll(tours, -1, axis=1)
    edge = distance[rows[..., 0], here, after]
    # Edges i and j are replaced: the segment from i + 1 to j is walked backwards.
    saved = edge[:, :, None] + edge[:, None]
    saved -= distance[rows, here[:, :, None], here[:, None]] + distance[rows, after[:, :, None], after[:, None]]
    saved[:, ~np.triu(np.ones((count, count), bool), 1)] = -np.inf
    best = saved.reshape(len(tours), -1).argmax(1)
    first, last = best // count, best % count
    places = np.arange(count)[None]
    inside = (places > first[:, None]) & (places <= last[:, None])
    order = np.where(inside, (first + last + 1)[:, None] - places, places)
    return saved.reshape(len(tours), -1).max(1), np.take_along_axis(tours, order, 1)


def _or_opt(tours: np.ndarray, distance: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The length that the best move of a segment of that many points saves, and the tours after it (Or-opt)."""
    sets, count = tours.shape
    if count < length + 3:
        return np.full(sets, -np.inf), tours
    rows = np.arange(sets)[:, None, None]
    head, tail = tours, np.roll(tours, -(length - 1), axis=1)
    before, after = np.roll(tours, 1, axis=1), np.roll(tours, -length, axis=1)
    flat = rows[..., 0]
    taken = distance[flat, before, head] + distance[flat, tail, after] - distance[flat, before, after]
    left, right = tours, np.roll(tours, -1, axis=1)  # the edge that it is put into
    put = (
        distance[rows, left[:, None], head[:, :, None]]
        + distance[rows, right[:, None], tail[:, :, None]]
        - distance[rows, left[:, None], right[:, None]]
    )
    saved = taken[:, :, None] - put
    # An edge that touches the segment is no place for it.
    starts, edges = np.arange(count)[:, None], np.arange(count)[None]
    saved[:, (edges - starts + 1) % count <= length] = -np.inf
    best = saved.reshape(sets, -1).argmax(1)
    start, edge = best // count, best % count
    # Turned so that the segment comes first: it is left out and put in again after the edge's left point.
    turned = np.take_along_axis(tours, (start[:, None] + np.arange(count)[None]) % count, 1)
    segment, rest = turned[:, :length], turned[:, length:]
    behind = ((edge - start) % count - length + 1)[:, None]  # how many of the rest come before it
    places = np.arange(count)[None]
    whole = np.concatenate([rest, segment], axis=1)
    order = np.where(places < behind, places, places - length)
    order = np.where((places >= behind) & (places < behind + length), count - length + places - behind, order)
    return saved.reshape(sets, -1).max(1), np.take_along_axis(whole, order, 1)
