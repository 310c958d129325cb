"""Light on a picture: how bright, by hand, and the same weights in terminal, picture, page and files."""

import base64
import csv
import io
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from regard.errors import DataError, ShapeError
from regard.views.overlay import VEIL, legend, lit, thickness
from regard.views.page.page import page
from regard.views.picture.picture import figure
from regard.views.scale import Scale
from regard.views.tables import from_csv, from_json, to_csv, to_json
from regard.views.terminal.terminal import terminal
from regard.views.view import Matrix, Overlay, View

IMAGE = np.random.default_rng(5).integers(0, 256, (6, 9, 3), dtype=np.uint8)
WEIGHTS = [[0.0, 0.125, 0.25], [0.5, 0.0, 0.125]]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "שלום",
    "بيت",
    "👩‍🚀",
    "雨伞",
    "",
    " ",
    "=1+1",
    '"><img src=x>',
]


def overlay(title="heart", weights=WEIGHTS, boxes=()):
    return Overlay.on(IMAGE, weights, title, boxes)


class Cells(HTMLParser):
    """The texts of a page's cells and headings, and whether a script stands where none should."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.headings, self.scripts, self._open = [], [], 0, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._open = "corner" if ("class", "corner") in attributes else tag
        self.scripts += tag == "script"
        if self._open == "td":
            self.cells.append("")
        elif tag == "h2":
            self.headings.append("")

    def handle_data(self, data):
        if self._open == "td" and self.cells and data.strip():
            self.cells[-1] += data.strip()
        elif self._open == "h2":
            self.headings[-1] += data

    def handle_endtag(self, tag):
        self._open = ""


def test_the_most_is_bright_and_nothing_lies_under_the_whole_veil():
    assert thickness(np.array([-1.0, 0.0, 0.5, 1.0])).tolist() == pytest.approx([0.66, 0.66, 0.33, 0.0])
    bright = lit(overlay(), np.ones((2, 3)), 9, 6)
    assert np.array_equal(bright, IMAGE)
    dark = lit(overlay(), np.zeros((2, 3)), 9, 6)
    assert np.abs(dark - (0.34 * IMAGE + 0.66 * np.array(VEIL))).max() <= 0.51
    ends = legend(3) * 255
    assert ends[2].tolist() == [226, 229, 235] and ends[0, 0] == pytest.approx(0.34 * 226 + 0.66 * 12)


def test_light_stands_over_its_own_cell_k11():
    white = np.full((40, 60, 3), 255, np.uint8)
    shown = lit(Overlay.on(white, WEIGHTS, "x"), np.array([[0, 0, 0], [1, 0, 0]]), 60, 40)[..., 0].astype(int)
    assert shown[30, 10] > 250 and shown[10, 10] < 110 and shown[30, 50] < 110  # the second row, the first column
    assert abs(shown[20, 10] - (shown[30, 10] + shown[0, 10]) / 2) < 6  # half way between two cells, half as bright
    one = lit(Overlay.on(white, [[0.3]], "x"), np.array([[1.0]]), 7, 5)
    assert one.shape == (5, 7, 3) and (one == 255).all()


def test_an_overlay_needs_a_picture_and_whole_boxes():
    assert overlay().rows == ("1", "2") and overlay().columns == ("1", "2", "3")
    for image in (IMAGE.astype(float), IMAGE[..., :2], IMAGE[0], IMAGE[:0]):
        with pytest.raises(ShapeError, match=r"image is \(height, width, 3\) of uint8"):
            Overlay.on(image, WEIGHTS, "x")
    for box in ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0, math.nan)):
        with pytest.raises(ShapeError, match="a box is four numbers"):
            Overlay.on(IMAGE, WEIGHTS, "x", [box])
    with pytest.raises(ShapeError, match="2 axes"):
        Overlay.on(IMAGE, [0.5, 0.5], "x")


def test_every_rendering_has_the_words_and_the_note():
    view = View("looking", "a heart", [overlay("red"), overlay("heart")])
    note = "A weight is not an effect"
    assert view.axes(overlay()) == ("row", "column") and Scale.of(view).high == 0.5
    for shown in (terminal(view, 80, False), page(view), to_json(view)):
        assert "red" in shown and "heart" in shown and note in shown
    drawn = figure(view)
    texts = [text.get_text() for text in drawn.texts]
    assert {"red", "heart", "0.5"} <= set(texts) and any(text.startswith(note) for text in texts)
    assert [axes.images[0].get_array().shape for axes in drawn.get_axes() if axes.images] == [(256, 384, 3)] * 2
    assert "权重不等于作用" in terminal(View("looking", "", [overlay()], language="zh"), 80, False)


def test_the_terminal_shows_shades_and_names_the_strongest_cell():
    lines = terminal(View("looking", "", [overlay("one"), overlay("two")]), 60, False).splitlines()
    assert lines[0].split() == ["one", "two"]
    assert [line[:6].rstrip() for line in lines[1:3]] == ["··░░▒▒", "██··░░"]
    assert lines[3].count(".50 row 2, column 1") == 2 or lines[3].startswith(".50")
    narrow = terminal(View("looking", "", [Overlay.on(IMAGE, np.eye(40), "wide")]), 20, False).splitlines()
    assert max(map(len, narrow)) <= 20 and narrow[1].startswith("██··")


def test_the_terminal_shows_the_picture_in_colour(monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    white = np.full((8, 8, 3), 255, np.uint8)
    shown = terminal(View("looking", "", [Overlay.on(white, [[1.0, 0.0]], "x")]), 80, True)
    rows = [line for line in shown.splitlines() if "▀" in line]
    assert len(rows) == 16 and {row.count("▀") for row in rows} == {32}  # two pixels a character
    codes = re.findall(r"38;(?:2;(\d+);\d+;\d+|5;(\d+))", rows[8])
    assert len(set(codes)) > 4 and codes[0] != codes[-1]


def test_a_page_has_each_weight_in_a_cell_and_the_picture_once_k8():
    noise = np.random.default_rng(1).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    weights = np.random.default_rng(2).dirichlet(np.ones(256), 12).reshape(12, 16, 16)
    words = [Overlay.on(noise, grid, f"word{at}", [(10.0, 20.0, 60.0, 70.5)]) for at, grid in enumerate(weights)]
    shown = page(View("looking", "twelve", words))
    assert shown.count("data:image/png;base64,") == 1 and len(shown) < 2_000_000
    parsed = Cells(shown)
    assert len(parsed.cells) == 12 * 256 and parsed.headings == [f"word{at}" for at in range(12)]
    numbers = [float(cell.replace("−", "-")) for cell in parsed.cells[:256]]
    assert numbers == pytest.approx(weights[0].ravel().tolist(), abs=0.0006)
    assert parsed.scripts == 1 and 'style="' not in shown and "img-src data:;" in shown
    content = re.search(r"data:image/png;base64,([^)]+)\)", shown)[1]
    assert np.array_equal(np.array(Image.open(io.BytesIO(base64.b64decode(content)))), noise)
    boxes = base64.b64decode(re.search(r"data:image/svg\+xml;base64,([^)]+)\)", shown)[1]).decode()
    assert "M10.0 20.0H60.0V70.5H10.0Z" in boxes and "viewBox='0 0 256 256'" in boxes
    assert "img-src" not in page(View("attention", "none", [Matrix([[1]], ["r"], ["c"])]))


def test_cells_of_a_page_cover_the_picture():
    shown = page(View("looking", "", [overlay()]))
    assert "right bottom/321px 212px no-repeat" in shown  # 9 × 6 is 320 × 213: three cells of 107, two of 106
    assert "min-width:107px;max-width:107px;height:106px" in shown
    strengths = re.findall(r"<td class=(v\d+)>", shown)
    assert strengths == ["v0", "v12", "v25", "v50", "v0", "v12"]


def test_hostile_words_change_nothing_b45(tmp_path):
    view = View("looking", HOSTILE[0], [overlay(word, boxes=[(0.0, 0.0, 3.0, 3.0)]) for word in HOSTILE])
    named = [word for word in HOSTILE if word != "雨伞"]  # for which a page takes a second to cut the Chinese font
    shown = page(View("looking", HOSTILE[0], [overlay(word) for word in named]))
    assert "<script>alert" not in shown and "<img" not in shown and Cells(shown).scripts == 1
    assert Cells(shown).headings == [word or f"Matrix {at}" for at, word in enumerate(named, start=1)]
    assert [matrix.title for matrix in from_json(to_json(view)).matrices] == HOSTILE
    assert all(word in terminal(view, 70, False) for word in ("שלום", "بيت", "雨伞"))
    drawn = [text.get_text() for text in figure(view).texts]
    assert all(any(text.startswith(word[:8]) for text in drawn) for word in HOSTILE)
    blocks = csv.reader(io.StringIO(to_csv(view).removeprefix("\ufeff")))
    assert not any(line[0].startswith(("=", "+", "-", "@")) for line in blocks if line)


def test_files_keep_grids_pictures_and_boxes(monkeypatch):
    other = Overlay.on(IMAGE[::-1], [[0.1, math.nan]], "other")
    view = View(
        "looking", "all", [overlay(boxes=[(1.0, 2.0, 3.0, 4.0)]), overlay("again"), other, Matrix([[1]], ["r"], ["c"])]
    )
    written = to_json(view)
    assert len(json.loads(written)["images"]) == 2
    first, again, third, plain = from_json(written).matrices
    assert np.array_equal(first.image, IMAGE) and np.array_equal(first.values, WEIGHTS)
    assert first.boxes == ((1, 2, 3, 4),) and again.boxes == () and again.title == "again"
    assert np.array_equal(third.image, IMAGE[::-1]) and np.isnan(third.values[0, 1]) and type(plain) is Matrix
    assert to_csv(view).startswith('\ufeff"heart: row \\ column","1","2","3"\n"1",0.0,0.125,0.25\n')
    assert [matrix.values.shape for matrix in from_csv(to_csv(view))] == [(2, 3), (2, 3), (1, 2), (1, 1)]
    content = json.loads(written)
    for damaged in ({"images": ["!"]}, {"images": ["QUJD"]}, {"images": [3]}, {"images": []}):
        with pytest.raises(DataError, match="damaged"):
            from_json(json.dumps(content | damaged))
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 20)  # of 54: a bomb
    with pytest.raises(DataError, match="damaged.*bomb"):
        from_json(written)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 300, 3), (300, 1, 3)])
def test_thin_pictures_and_empty_grids_are_drawn_k11(shape):
    view = View(
        "looking", "thin", [Overlay.on(np.full(shape, 9, np.uint8), weights, "x") for weights in ([[1.0]], [[]])]
    )
    assert "no data" in terminal(view, 30, False) and "no data" in page(view)
    assert terminal(view, 30, True) and len(figure(view).get_axes()) >= 2
