"""Data files give back every number and label exactly; the ending of a name says the format."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from regard.errors import ConfigError, DataError
from regard.views.tables import from_csv, from_json, read_view, to_csv, to_json
from regard.views.view import Matrix, View
from regard.views.write import check_ending, write

FORMULAS = ["=1+1", "+1", "-", "@a", "'", "''=x", "\t=1", "\r", "\n", "\r\n", "＝1"]
ODD = ["", " ", '"', ",", ";", 'a,b\n"c"', "\x00", "the", "the", "\ufeff", "\u2028", "</script>", "nan"]
HOSTILE = [*FORMULAS, *ODD, "今天", "👩\u200d👩\u200d👧", "مرحبا"]


def _same(left: Matrix, right: Matrix) -> None:
    assert (left.rows, left.columns) == (right.rows, right.columns)
    assert left.values.shape == right.values.shape
    assert np.array_equal(left.values, right.values, equal_nan=True)


@st.composite
def _matrices(draw: st.DrawFn) -> Matrix:
    label = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(HOSTILE)
    rows, columns = draw(st.lists(label, max_size=4)), draw(st.lists(label, max_size=4))
    values = draw(arrays.arrays(np.float64, (len(rows), len(columns)), elements=st.floats(width=64)))
    return Matrix(values, rows, columns, title=draw(label))


@settings(max_examples=80, deadline=None)
@given(st.lists(_matrices(), max_size=3))
def test_json_and_csv_give_back_numbers_and_labels_exactly(matrices: list[Matrix]) -> None:
    view = View("alignment", "t\nitle", matrices, ["a note"], language="zh")
    read = from_json(to_json(view))
    assert (read.kind, read.title, read.all_notes, read.language) == ("alignment", "t\nitle", view.all_notes, "zh")
    assert [m.title for m in read.matrices] == [m.title for m in matrices]
    assert [read.axes(m) for m in read.matrices] == [view.axes(m) for m in matrices]
    for back in (read.matrices, from_csv(to_csv(view))):
        assert len(back) == len(matrices)
        for left, right in zip(back, matrices, strict=True):
            if right.rows:  # a table without rows has no shape but its labels
                _same(left, right)
            assert left.columns == right.columns


def test_B47_hostile_labels_through_files(tmp_path: Path) -> None:
    matrix = Matrix(np.random.default_rng(0).normal(size=(len(HOSTILE), 2)), HOSTILE, ["=SUM(A1)", "the"])
    view = View("alignment", "", [matrix])
    _same(read_view(write(view, tmp_path / "a.json")).matrices[0], matrix)
    with open(write(view, tmp_path / "a.csv"), encoding="utf-8", newline="") as file:
        _same(from_csv(file.read())[0], matrix)


def test_no_label_is_a_formula_in_a_spreadsheet() -> None:
    text = to_csv(View("alignment", "", [Matrix(np.zeros((len(HOSTILE), 1)), HOSTILE, ["@SUM(1)"], row_axis="=cmd")]))
    cells = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    for text_cell in [*cells[0], *(line[0] for line in cells[1:])]:
        assert not text_cell.startswith(("=", "+", "-", "@", "\t", "\r", "＝"))
    assert cells[0] == ["'=cmd \\ source", "'@SUM(1)"]


def test_csv_is_the_table_that_people_expect() -> None:
    matrix = Matrix([[0.75, 0.25], [0.1, np.nan]], ["das", "Haus"], ["the", "house"])
    block = '"target \\ source","the","house"\n"das",0.75,0.25\n"Haus",0.1,nan\n'
    assert to_csv(View("alignment", "", [matrix])) == "\ufeff" + block
    assert to_csv(View("alignment", "", [matrix, matrix])) == "\ufeff" + block + "\n" + block


def test_json_is_plain_json() -> None:
    text = to_json(View("alignment", "", [Matrix([[np.nan, np.inf, -np.inf, 0.1]], ["a"], list("bcde"))]))

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    content = json.loads(text, parse_constant=refuse)
    assert content["matrices"][0]["values"] == [["NaN", "Infinity", "-Infinity", 0.1]]
    assert content["notes"][0].startswith("A weight is not an effect")


def test_other_files_are_an_error_that_says_why() -> None:
    with pytest.raises(DataError, match="no JSON"):
        from_json("<html>")
    with pytest.raises(DataError, match="no view that regard wrote"):
        from_json("[1]")
    with pytest.raises(DataError, match="damaged.*matrices"):
        from_json('{"format": "regard view 1", "kind": "alignment"}')
    with pytest.raises(DataError, match="labels and numbers"):
        from_csv("x,a\nb,hello\n")


@pytest.mark.parametrize("ending", ["html", "png", "svg", "json", "csv", "PNG"])
def test_the_ending_says_the_format(tmp_path: Path, ending: str) -> None:
    path = write(View("alignment", "t", [Matrix([[1.0]], ["a"], ["b"])]), tmp_path / "new" / f"x.{ending}")
    start = path.read_bytes()[:6]
    starts = {"html": b"<!doct", "png": b"\x89PNG\r\n", "svg": b"<?xml ", "json": b'{"form', "csv": b'\xef\xbb\xbf"ta'}
    assert start == starts[ending.lower()]


def test_another_ending_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'html'.*Known: csv, html, json, png, svg"):
        check_ending("a.htm")
    with pytest.raises(ConfigError, match="'picture'"):
        write(View("alignment", "", []), "picture")


def test_a_plain_view_is_written_without_slow_imports(tmp_path: Path) -> None:
    program = """
import sys
from regard.views.terminal.terminal import terminal
from regard.views.view import Matrix, View
from regard.views.write import write
view = View("alignment", "t", [Matrix([[1.0]], ["a"], ["b"])])
terminal(view, 80)
for ending in ("html", "json", "csv"):
    write(view, f"{sys.argv[1]}/a.{ending}")
print(sorted({"torch", "matplotlib", "fontTools"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
