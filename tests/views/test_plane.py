"""Points in the plane: where they stand, by hand, and the same ones in terminal, picture, page and files."""

import math
import re

import numpy as np
import pytest

from regard.errors import ShapeError
from regard.views.page.page import page
from regard.views.picture.picture import figure
from regard.views.plane import PlaneLayout
from regard.views.scale import Scale
from regard.views.tables import from_json, to_csv, to_json
from regard.views.terminal.terminal import terminal
from regard.views.view import Matrix, Plane, View

GAP = [math.nan, math.nan]
TRIANGLE = Plane(
    [[10, 20], [14, 20], [10, 22], [10, 20], GAP, [12, 21]],
    ["a", "b", "<i>", "a", "", "alone"],
    ["x", "y"],
    "a triangle",
)


def test_one_scale_for_both_axes_and_every_point_once():
    layout = PlaneLayout.of(TRIANGLE)
    assert [(mark.label, mark.x, mark.y) for mark in layout.marks] == [
        ("a", 0, 0), ("b", 1, 0), ("<i>", 0, 0.5), ("alone", 0.5, 0.25)
    ]  # fmt: skip
    assert [[mark.label for mark in polyline] for polyline in layout.polylines] == [["a", "b", "<i>", "a"]]
    assert (layout.wide, layout.tall) == (1, 0.5)
    with pytest.raises(ShapeError, match="columns are x and y"):
        Plane([[1, 2, 3]], ["a"], ["x", "y", "z"])


@pytest.mark.parametrize("values", [[[3, 3]], [[3, 3], [3, 3]], [[1, 1], [1, 9]], [[0, 0], [1e9, 1]], [GAP]])
def test_few_points_and_thin_planes_are_drawn_k1(values):
    made = Plane(values, [str(row) for row in range(len(values))], ["x", "y"])
    view = View("plane", "thin", [made])
    assert str(len(values) - 1) in terminal(view, 40, False) or values == [GAP]
    assert figure(view).get_axes() and "<svg" in page(view)


def test_the_terminal_shows_labels_in_their_places():
    lines = terminal(View("plane", "", [TRIANGLE]), 40, False).splitlines()
    body = lines[lines.index("a triangle") + 1 :]
    assert body[0].startswith("<i>") and body[-1].startswith("a") and body[-1].rstrip().endswith("b")
    assert max(map(len, body)) <= 40 and any("alone" in line for line in body)
    row = next(at for at, line in enumerate(body) if "alone" in line)
    assert abs(row - len(body) / 2) <= 1


def test_a_plane_stands_beside_cells_and_has_no_part_in_their_scale():
    cells = Matrix([[0.25, 0.5]], ["r"], ["c", "d"], "weights")
    view = View("pointing", "both", [cells, TRIANGLE])
    assert Scale.of(view).high == 0.5
    assert view.axes(TRIANGLE) == ("point", "coordinate") and view.axes(cells) == ("step", "points at")
    shown = page(view)
    assert shown.count("<table") == 2 and shown.count("<svg") == 1 and "&lt;i&gt;" in shown and "<i>" not in shown
    assert re.search(r'<path class="curve" d="M26.0 176.0L326.0 176.0L26.0 26.0L26.0 176.0"/>', shown)  # y goes up
    folded = shown[shown.index("<details><summary>coordinate (4)") :]
    assert folded.count("<tr>") == 1 + 4 and "∅" not in folded  # each point once, and no gap between walks
    drawn = figure(view)
    texts = [text.get_text() for axes in drawn.get_axes() for text in axes.texts]
    assert {"a", "b", "<i>", "alone"} <= set(texts) and texts.count("a") == 1
    assert "scale" in [text.get_text().split(" ")[0] for text in drawn.texts]
    assert "scale" not in [text.get_text().split(" ")[0] for text in figure(View("plane", "", [TRIANGLE])).texts]


def test_files_keep_it_a_plane():
    view = View("pointing", "both", [TRIANGLE, Matrix([[1]], ["r"], ["c"])])
    again = from_json(to_json(view))
    assert [type(matrix) for matrix in again.matrices] == [Plane, Matrix]
    assert np.array_equal(again.matrices[0].values, TRIANGLE.values, equal_nan=True)
    assert again.matrices[0].rows == TRIANGLE.rows and to_csv(view).count("\n\n") == 1
