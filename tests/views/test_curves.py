"""Lines: where they stand, by hand, and the same numbers in terminal, picture, page and files."""

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.views.curves import Curves, kept, spread, ticks
from regard.views.page.page import page
from regard.views.picture.picture import figure, picture
from regard.views.tables import from_csv, from_json, to_csv, to_json
from regard.views.terminal.terminal import terminal
from regard.views.view import Matrix, View

NAMES = ["no attention", "<script>alert(1)</script> & 加性"]
LENGTHS = ["1–10", "11–20", "21+"]


def _view(**options: str) -> View:
    matrix = Matrix([[40, 20, 0], [30, math.nan, 35]], NAMES, LENGTHS, "BLEU", "model", "words")
    return View("lines", "By length", [matrix], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 39.2, [0, 10, 20, 30, 40]),
        (31, 39, [30, 32, 34, 36, 38, 40]),
        (0.2, 0.93, [0.2, 0.4, 0.6, 0.8, 1.0]),
        (-3, 7, [-4, -2, 0, 2, 4, 6, 8]),
        (-0.5, 5.5, [-2, 0, 2, 4, 6]),
        (0, 6, [0, 1, 2, 3, 4, 5, 6]),
        (5, 5, [5, 5.1]),
        (0, 0, [0, 0.1]),
    ],
)
def test_ticks_are_round_numbers_around_all_values(low: float, high: float, expected: list[float]) -> None:
    found = ticks(low, high)
    if low != high:
        assert found == pytest.approx(expected) and len(found) <= 7
    assert found[0] <= low <= high <= found[-1] or low == high
    assert found[0] < found[-1]


def test_names_keep_apart_in_the_order_of_their_lines() -> None:
    assert spread([0.5, 0.9, 0.5], 0.1) == pytest.approx([0.45, 0.9, 0.55])
    assert spread([0.0, 0.0, 0.05], 0.1) == pytest.approx([0.0, 0.1, 0.2])
    assert spread([1.0, 0.2, 0.98], 0.1) == pytest.approx([1.0, 0.2, 0.9])
    crowd = spread([0.7] * 11 + [0.1], 0.07)
    assert np.diff(sorted(crowd)).min() == pytest.approx(0.07, abs=1e-9) and max(crowd) <= 1.0
    assert spread([], 0.1) == []


def test_labels_that_are_rising_numbers_stand_at_their_values() -> None:
    def across(*labels: str) -> tuple[float, ...]:
        return Curves.of(Matrix(np.zeros((1, len(labels))), ["a"], labels)).across

    assert across("10", "20", "60") == (0.0, 0.2, 1.0)
    assert across("10", "60", "20") == across("1–9", "10–19", "20+") == (0.0, 0.5, 1.0)
    assert across("nan", "1", "2") == (0.0, 0.5, 1.0)
    assert across("7") == (0.5,) and across() == ()
    assert kept([0.0, 0.1, 0.25, 0.3, 0.5], 0.2) == [0, 2, 4]


def test_heights_begin_at_zero_unless_all_numbers_are_far_above_it() -> None:
    curves = Curves.of(_view().matrices[0])
    assert curves.ticks == ((0.0, 0.0), (10.0, 0.25), (20.0, 0.5), (30.0, 0.75), (40.0, 1.0))
    assert curves.heights[0].tolist() == [1.0, 0.5, 0.0]
    assert curves.heights[1, [0, 2]].tolist() == [0.75, 0.875] and np.isnan(curves.heights[1, 1])
    assert curves.ends() == [0.0, 0.875]
    high = Curves.of(Matrix([[31, 39, np.inf]], ["a"], list("bcd")))
    assert high.ticks[0] == (30.0, 0.0) and high.heights[0, :2].tolist() == pytest.approx([0.1, 0.9])
    assert np.isnan(high.heights[0, 2])  # what is not finite is a gap
    assert Curves.of(Matrix([[np.nan]], ["a"], ["b"])).ends() == [0.0]


def test_the_terminal_has_a_bar_before_each_number() -> None:
    lines = terminal(_view(), width=70, color=False).split("\n")
    assert lines[2:6] == [
        "BLEU",
        "model ↓  words →",
        "                         1–10 11–20 21+",
        "           no attention   █40   ▅20  ▁0",
    ]
    assert lines[6].startswith("<script>alert(1)</scri") and lines[6].split()[-3:] == ["▆30", "–", "▇35"]
    assert "weight" not in "\n".join(lines)


def test_the_page_has_each_point_and_each_number_and_no_script_of_a_name() -> None:
    text = page(_view())
    assert text.count("<script") == 1 and "&lt;script&gt;alert(1)" in text
    svg = re.search(r"<svg.*?</svg>", text, re.DOTALL)
    assert svg is not None and " style=" not in text
    drawing = ElementTree.fromstring(svg[0])
    points = [title.text for title in drawing.iter("title")]
    assert points == [
        f"{NAMES[0]} · {length} · {value}" for length, value in zip(LENGTHS, (40, 20, 0), strict=True)
    ] + [
        f"{NAMES[1]} · 1–10 · 30",
        f"{NAMES[1]} · 21+ · 35",
    ]
    paths = [path.get("d") or "" for path in drawing.iter("path") if path.get("class") == "curve"]
    assert [len(re.findall(letter, path)) for path in paths for letter in "ML"] == [1, 2, 2, 0]  # a gap lifts the pen
    assert re.findall(r"<td>([^<]*)", text) == ["40", "20", "0", "30", "–", "35"]
    assert "no data" in page(View("lines", "", [Matrix([], [], [])]))


def test_the_picture_draws_the_numbers_with_every_name(tmp_path: Path) -> None:
    drawn = figure(_view())
    [axes] = drawn.axes
    curves = [line for line in axes.lines if line.get_marker() != "None"]
    tall = axes.get_ylim()[1]
    assert [(np.asarray(line.get_ydata()) / tall).tolist() for line in curves][0] == [1.0, 0.5, 0.0]
    assert np.isnan(np.asarray(curves[1].get_ydata())[1])
    assert len({(line.get_color(), line.get_marker()) for line in curves}) == 2
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["BLEU", "words →", *NAMES]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == LENGTHS
    root = ElementTree.fromstring(picture(_view(language="zh"), tmp_path / "a.svg").read_text("utf-8"))
    assert not {"text", "script"} & {element.tag.rsplit("}", 1)[-1] for element in root.iter()}


def test_many_lines_and_none() -> None:
    crowd = Matrix(np.ones((23, 50)), [f"line {at}" for at in range(23)], [str(at) for at in range(50)])
    drawn = figure(View("lines", "", [crowd, Matrix([], [], ["a"])], language="zh"))
    first, second = drawn.axes
    bottoms = sorted(text.get_position()[1] for text in first.texts if text.get_text().startswith("line "))
    assert len(bottoms) == 23 and min(np.diff(bottoms)) > 0.18  # inches: no name on another
    assert 1 < len(first.get_xticks()) < 50
    assert "没有数据" in [text.get_text() for text in second.texts]


def test_files_give_lines_back() -> None:
    for back in (from_json(to_json(_view())).matrices[0], from_csv(to_csv(_view()))[0]):
        assert (back.rows, back.columns) == (tuple(NAMES), tuple(LENGTHS))
        assert np.array_equal(back.values, _view().matrices[0].values, equal_nan=True)
    assert from_json(to_json(_view())).kind == "lines"
