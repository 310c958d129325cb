"""Problems of points: right answers by hand and by trying all, their order, sets by number, and sets people write."""

import itertools

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from regard.data.points.batches import IGNORED, PointBatch, PointSets
from regard.data.points.geometry import is_simple, normalized, signed_area
from regard.data.points.problem import PROBLEMS, answer_of, point_problem
from regard.data.points.settings import LEAST, PointData
from regard.data.points.tours import exact_tours, good_tours, nearest_neighbour_tours, shortest_tours, tour_lengths
from regard.data.points.written import read_sets
from regard.errors import ConfigError, DataError
from regard.tasks.core.config import check

SQUARE = np.array([[2.0, 2.0], [0.0, 0.0], [2.0, 0.0], [0.9, 1.2], [0.0, 2.0]])  # and a point within
RANDOM = np.random.default_rng(0)


def sets_of(text, name="hull"):
    return [points.tolist() for points in read_sets(text.splitlines(), point_problem(name), "given.csv")]


# Answers ------------------------------------------------------------------------------------------------------------


def test_sets_may_stand_a_line_each_as_solve_writes_them():
    lines = '{"points": [2.0, 1.0], "answer": [1, 2]}\n\n{"points": [3.0], "answer": [1]}\n'
    assert sets_of(lines, "sort") == [[[2.0], [1.0]], [[3.0]]]
    assert sets_of("[1, 2]\n[3]", "sort") == [[[1.0], [2.0]], [[3.0]]]


def test_answers_by_hand_in_their_order():
    """W7 for the numbers; the others begin at the leftmost point, of equal ones the lowest."""
    assert answer_of(point_problem("sort"), np.array([[20.0], [5.0], [10.0]])) == [0, 2, 1]
    assert answer_of(point_problem("sort"), np.array([[1.0], [7.0], [7.0]])) == [
        1,
        2,
        0,
    ]
    assert answer_of(point_problem("hull"), SQUARE) == [1, 2, 0, 4]
    # Each side of the square with the point within; corners from left to right, triangles by their corners.
    assert answer_of(point_problem("delaunay"), SQUARE) == [1, 4, 3, 1, 3, 2, 4, 3, 0, 3, 2, 0]
    assert answer_of(point_problem("tsp"), SQUARE[[0, 1, 2, 4]]) == [1, 2, 0, 3]


@pytest.mark.parametrize("name", ["hull", "delaunay", "tsp"])
def test_the_order_of_an_answer_does_not_depend_on_how_the_set_is_given(name):
    problem, points = point_problem(name), RANDOM.random((7, 2))
    order = RANDOM.permutation(7)
    mixed = answer_of(problem, points[order])
    assert [int(order[item]) for item in mixed] == answer_of(problem, points)


def test_the_dynamic_programme_finds_what_trying_all_finds():
    """Held & Karp against all 720 tours of 7 points; the exchanges find the same lengths here."""
    points = RANDOM.random((11, 7, 2))
    every = [[0, *rest] for rest in itertools.permutations(range(1, 7))]
    least = [min(tour_lengths(one[None].repeat(len(every), 0), np.array(every))) for one in points]
    assert tour_lengths(points, exact_tours(points)) == pytest.approx(np.array(least), abs=1e-12)
    assert tour_lengths(points, good_tours(points)) == pytest.approx(np.array(least), rel=1e-3)


def test_tours_are_permutations_and_exchanges_only_help():
    points = RANDOM.random((5, 13, 2))
    for tours in (shortest_tours(points), good_tours(points, 2), nearest_neighbour_tours(points)):
        assert (np.sort(tours, 1) == np.arange(13)).all()
    good, near = good_tours(points), nearest_neighbour_tours(points)
    assert (tour_lengths(points, good) <= tour_lengths(points, near) + 1e-12).all()
    # No exchange of two edges would help any more.
    for one, tour in zip(points, good, strict=True):
        here = tour_lengths(one[None], tour[None])[0]
        for first, last in itertools.combinations(range(13), 2):
            turned = np.concatenate([tour[:first], tour[first : last + 1][::-1], tour[last + 1 :]])
            assert tour_lengths(one[None], turned[None])[0] >= here - 1e-9
    assert exact_tours(np.zeros((2, 1, 2))).tolist() == [[0], [0]]
    with pytest.raises(DataError, match="at most 12"):
        exact_tours(points)


def test_when_an_answer_is_as_good():
    hull, delaunay, tsp, sort = (point_problem(name) for name in ("hull", "delaunay", "tsp", "sort"))
    right = answer_of(hull, SQUARE)
    assert hull.is_correct(SQUARE, [0, 2, 1, 4], right)  # the other way round, from another corner
    assert not hull.is_correct(SQUARE, [1, 2, 0], right) and not hull.is_correct(SQUARE, [1, 0, 2, 4], right)
    assert hull.coverage(SQUARE, [1, 2, 0], right) == pytest.approx(0.5)  # half of the square
    assert hull.coverage(SQUARE, [1, 0, 2, 4], right) == 0  # its sides cross
    assert not is_simple(SQUARE[[1, 0, 2, 4]]) and is_simple(SQUARE[right])
    triangles = answer_of(delaunay, SQUARE)
    assert delaunay.is_correct(SQUARE, [*triangles[3:], *triangles[2::-1]], triangles)
    assert delaunay.coverage(SQUARE, [1, 2, 0, 4, 3, 1], triangles) == 1 / 4
    corners = SQUARE[[0, 1, 2, 4]]
    assert tsp.length(corners, [1, 2, 0, 3]) == pytest.approx(8) and tsp.is_correct(corners, [0, 2, 1, 3], [1, 2, 0, 3])
    assert not tsp.is_correct(corners, [0, 1, 2, 3], [1, 2, 0, 3])
    assert sort.coverage(np.zeros((3, 1)), [0, 1, 2], [0, 2, 1]) == pytest.approx(1 / 3)
    assert delaunay.write([0, 1, 3, 1, 2, 3]) == "1,2,4 2,3,4" and sort.write([0, 2, 1]) == "1 3 2"


def test_hull_areas_are_those_of_qhull_b40():
    """K11: counter-clockwise is above 0, whatever the corner that it begins at."""
    for _ in range(5):
        points = RANDOM.random((11, 2))
        corners = answer_of(point_problem("hull"), points)
        assert signed_area(points[corners]) == pytest.approx(ConvexHull(points).volume)
        assert signed_area(points[corners[::-1]]) == pytest.approx(-ConvexHull(points).volume)


def test_points_on_one_line_have_no_hull_k1():
    line = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [2.0, 2.0]])
    for name in ("hull", "delaunay"):
        assert answer_of(point_problem(name), line) is None
        with pytest.raises(DataError, match="on one line"):
            point_problem(name).answers(line[None])
    assert normalized(np.full((3, 2), 7.0)).tolist() == [[0, 0]] * 3


def test_scaling_changes_no_answer():
    points = RANDOM.random((7, 2))
    wide = points * 1000 - 300
    small = normalized(wide)
    assert small.min() == 0 and small.max() == 1
    assert small == pytest.approx(normalized(points), abs=1e-9)
    for name in ("hull", "delaunay", "tsp"):
        assert answer_of(point_problem(name), wide) == answer_of(point_problem(name), points)


# Sets by number -----------------------------------------------------------------------------------------------------


def test_a_set_is_known_by_its_number_and_part_b33():
    data = PointData(problem="hull", shortest=3, longest=7, sets=11, batch=4)
    training, again, test = (
        PointSets(point_problem("hull"), data, 5, part) for part in ("training", "training", "test")
    )
    assert (training.points(3) == again.points(3)).all()
    assert training.points(3).shape != test.points(3).shape or (training.points(3) != test.points(3)).any()
    assert training.plan(1) == [[11, 12, 13, 14], [15, 16, 17, 18], [19, 20, 21]]
    assert {len(training.points(number)) for number in range(60)} == {3, 4, 5, 6, 7}
    assert training.points(3, 5).shape == (5, 2)


def test_a_batch_holds_several_sizes_and_marks_padding():
    problem = point_problem("sort")
    batch = PointBatch.of([np.array([[20.0], [5.0], [10.0]]), np.array([[4.0]])], [[0, 2, 1], [0]])
    assert batch.points[..., 0].tolist() == pytest.approx(np.array([[1, 0, 1 / 3], [0, 0, 0]]))
    assert batch.lengths.tolist() == [3, 1]
    assert batch.answers.tolist() == [[1, 3, 2, 0], [1, 0, IGNORED, IGNORED]]
    assert PointBatch.of([np.zeros((3, 1))]).answers.shape == (1, 0)
    assert PointBatch.of([np.zeros((3, 2))]).to("cpu").points.shape == (1, 3, 2)
    assert problem.most(5) == 6 and point_problem("delaunay").most(5) == 16


def test_settings_say_what_cannot_be():
    with pytest.raises(ConfigError, match="hull begins with sets of 3; shortest is 2"):
        check(PointData, {"problem": "hull", "shortest": 2})
    with pytest.raises(ConfigError, match=r"shortest \(11\) must not be above longest \(10\)"):
        check(PointData, {"shortest": 11})
    with pytest.raises(ConfigError, match="Did you mean 'delaunay'"):
        point_problem("delauny")
    assert set(PROBLEMS) == set(LEAST)


# Sets that people write ---------------------------------------------------------------------------------------------


def test_csv_text_and_json_are_read_k8():
    points = [[0.0, 0.0], [10.0, 0.5], [-0.3, 1.0]]
    for text in ("x,y\n0,0\n10, 0.5\n-.3,1\n", "0 0\n10\t.5\n-3e-1 1", "0,0 10,0.5 -0.3,1\n", "0;0\n10;.5\n-.3;1\n\n",
                 "[[0, 0], [10, 0.5], [-0.3, 1]]", '{"points": [[0, 0], [10, 0.5],\n [-0.3, 1]]}'):  # fmt: skip
        assert sets_of(text) == [points], text
    for text in ("0,0\n10,.5\n-.3,1\n\n\n0,0\n10,.5\n-.3,1\n", "0,0 10,.5 -.3,1\n0,0 10,.5 -.3,1",
                 '[[[0, 0], [10, 0.5], [-0.3, 1]], {"points": [[0, 0], [10, 0.5], [-0.3, 1]]}]'):  # fmt: skip
        assert sets_of(text) == [points, points], text
    for text in ("20, 5,10\n", "20 5 10", "[20, 5, 10]", '{"points": [20, 5, 10]}'):
        assert sets_of(text, "sort") == [[[20.0], [5.0], [10.0]]], text
    assert sets_of("7\n20 5\n", "sort") == [[[7.0]], [[20.0], [5.0]]] == sets_of("[[7], [20, 5]]", "sort")


def test_nothing_in_is_nothing_out_b15():
    assert sets_of("") == sets_of("\n\n") == sets_of("[]", "sort") == sets_of("x,y\n") == []


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("0,0\n1,1\n1,x\n", "hull", "given.csv, line 3: 'x' is no number. Expected x,y"),
        ("0,0\n1,1\nnan,0\n", "hull", "line 3: 'nan' is no finite number"),
        ("0,0\n1\n", "hull", "line 2: 1 number where a point has 2"),
        ("0,0\n1,2,3\n", "hull", "line 2: 3 numbers where a point has 2"),
        ("\n0,0\n1,1\n", "hull", "line 2: a set of 2; hull needs 3 or more"),
        ("20 5 a", "sort", "line 1: 'a' is no number. Expected numbers"),
        ("[[0, 0], [1, 1], [2]]", "hull", r"given.csv: expected a set such as \[\[0, 0\]"),
        ("[[0, 0], [1, true], [2, 2]]", "hull", "given.csv: expected a set such as"),
        ("[[0, 0], [1, 1]]", "tsp", "given.csv: a set of 2; tsp needs 3 or more"),
        ("[[[0, 0], [1, 1], [2, 3]], [[0, 0]]]", "hull", "given.csv, set 2: a set of 1"),
        ('[[0, 0], [1, "a"]', "hull", "given.csv, line 1: this is no JSON: Expecting ',' delimiter at column 18"),
        ("[" * 100_000, "hull", "given.csv, line 1: this is no JSON"),
        ("\n[[0, 0],\n [1 1],\n [0, 1]]\n", "hull", "given.csv, line 3: this is no JSON: .* at column 5"),
        ('{"points": [[0, 0], [1, 1], [0, 1]]}\n\n{"points": [[0, 0],\n', "hull", "given.csv, line 3: this is no JSON"),
        ("[[0, 0], [1, 1], [0, 1]]\nno\n[[0, 0], [1, 1], [0, 1]]\n", "hull", "given.csv, line 2: this is no JSON"),
        ('{"points": [20, 5, 10]}\n[20, 5, 10}\n', "sort", "given.csv, line 2: this is no JSON"),
        ("word", "sort", "given.csv, line 1: 'word' is no number. Expected numbers"),
        ("word", "hull", "given.csv, line 1: 'word' is no number. Expected x,y"),
        ('{"points": [[0, 0], [1, 1], [0, 1]]}\n\n{"points": [[0, 0], [1, 1]]}\n', "hull", "line 3: a set of 2; hull"),
        ("[[0, 0], [1, 1], [2, 1" + "0" * 400 + "]]", "hull", "given.csv: expected a set such as"),
        ("0,0\n1,1\n-1e308,0\n", "hull", "line 3: '-1e308' is too large; numbers to 1e\\+150 are read"),
    ],
)
def test_what_is_no_set_is_named_k8(text, name, told):
    with pytest.raises(DataError, match=told):
        sets_of(text, name)
