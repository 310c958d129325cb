"""Pictures: the right label at each cell, drawn with glyphs that exist."""

import json
import warnings
import xml.etree.ElementTree as tree
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.ft2font import LoadFlags
from PIL import Image

from regard.errors import DataError
from regard.views import fonts
from regard.views.fonts import drawable, families
from regard.views.labels import is_ignorable
from regard.views.picture.picture import MOST_MATRICES, figure, picture
from regard.views.view import Matrix, View

SCRIPTS = ["今天", "👩\u200d👩\u200d👧", "🇫🇷", "مرحبا", "שלום", "e\u0301te\u0301", "नमस्ते"]
TOKENS = [*SCRIPTS, " ", "\n", "</s>", "$x^2$", "1\ufe0f\u20e3"]


@pytest.fixture(autouse=True)
def no_warnings() -> object:
    """matplotlib warns when it draws an empty box in place of a glyph."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def _square(tokens: list[str]) -> View:
    return View("alignment", "日期 → date", [Matrix(np.eye(len(tokens)), tokens, tokens[::-1], title="标题 👍")])


def _ticks(drawn: Figure) -> list[list[tuple[float, str]]]:
    """Place and label of each tick of the rows, then of the columns."""
    axes = (drawn.axes[0].yaxis, drawn.axes[0].xaxis)
    labels = [[label.get_text() for label in axis.get_ticklabels()] for axis in axes]
    return [
        list(zip(axis.get_ticklocs().tolist(), texts, strict=True)) for axis, texts in zip(axes, labels, strict=True)
    ]


def test_B47_each_row_and_column_carries_its_own_label() -> None:
    matrix = Matrix(np.arange(8).reshape(2, 4) / 10, ["out", "put"], ["the", "the", "in", "put"])
    rows, columns = _ticks(figure(View("alignment", "", [matrix])))
    assert rows == [(0, "out"), (1, "put")]
    assert columns == [(0, "the"), (1, "the"), (2, "in"), (3, "put")]


def test_B47_labels_can_be_read_back_from_the_file(tmp_path: Path) -> None:
    view = _square(TOKENS)
    image = Image.open(picture(view, tmp_path / "a.png"))
    content = json.loads(image.text["Description"])
    assert content["matrices"] == [{"title": "标题 👍", "rows": TOKENS, "columns": TOKENS[::-1]}]
    assert content["notes"][0].startswith("A weight is not an effect")
    root = tree.parse(picture(view, tmp_path / "a.svg")).getroot()
    described = root.find(".//{http://purl.org/dc/elements/1.1/}description")
    assert described is not None and json.loads(described.text or "")["matrices"] == content["matrices"]


def test_B47_an_empty_matrix_shows_no_data(tmp_path: Path) -> None:
    for view in (View("alignment", "t", [Matrix([], [], ["a", "b"])]), View("alignment", "t", [])):
        drawn = figure(view)
        assert "no data" in [text.get_text() for text in drawn.texts]
        assert not drawn.axes
        picture(view, tmp_path / "empty.png")


def test_cells_have_the_shades_of_their_numbers() -> None:
    values = np.array([[0.0, 1.0, 0.5], [np.nan, 0.25, 0.75]])
    axes = figure(View("alignment", "", [Matrix(values, ["a", "b"], ["c", "d", "e"])])).axes[0]
    lightness = axes.collections[0].get_array().sum(axis=-1)
    assert lightness[0, 0] > lightness[1, 1] > lightness[0, 2] > lightness[1, 2] > lightness[0, 1]
    assert [patch.get_hatch() for patch in axes.patches] == ["////"]  # the NaN
    assert {text.get_text() for text in axes.texts} == {"1.0", ".50", "nan", ".25", ".75"}
    low, high = axes.get_ylim()
    assert low > high  # the first row is the top one


@pytest.mark.parametrize("label", TOKENS + ["▁the", "Ġword", "한국", "\U0001f6d8", "ꙮ", "𓀀", "\U0003134a", "⣿"])
def test_every_drawn_character_has_a_glyph_in_its_fonts(label: str) -> None:
    """Never an empty box: what no font covers is written as its code point."""
    drawn = drawable(label)
    covered: set[int] = set()
    for family in families(drawn):
        found = font_manager.findfont(font_manager.FontProperties(family=[family]), fallback_to_default=False)
        covered |= set(font_manager.get_font(found).get_charmap())
    assert {ord(character) for character in drawn if not is_ignorable(character)} - {0x20, 0x0A} <= covered


def test_shipped_fonts_draw_chinese_emoji_arabic_and_hebrew_themselves() -> None:
    level_one = [bytes([high, low]).decode("gb2312") for high in range(0xB0, 0xD7) for low in range(0xA1, 0xFA)]
    for label in ("".join(level_one), "😀👍🏽❤\ufe0f👩\u200d👩\u200d👧🇫🇷", "السلام عليكم", "שלום", "▁Ġ␣⏎→…"):
        assert drawable(label) == label


def test_a_character_without_any_glyph_is_written_as_its_code_point(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawable("a\U000e1234b") == "a\U000e1234b".replace("\U000e1234", "U+E1234")


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_all_scripts_are_drawn_without_an_empty_box(tmp_path: Path, ending: str) -> None:
    path = picture(_square([*TOKENS, "\U0001f6d8"]), tmp_path / f"a.{ending}")
    assert path.stat().st_size > 10_000


def test_right_to_left_labels_are_shaped_in_visual_order() -> None:
    """The first letter in memory is the rightmost on paper."""
    layout = font_manager.get_font(
        [font_manager.findfont(font_manager.FontProperties(family=[name])) for name in families("مرحبا")]
    )
    layout.set_size(12, 72)
    items = layout._layout("مرحبا", LoadFlags.DEFAULT)  # matplotlib's own shaping, which its text drawing uses
    drawn = [item.char for item in sorted(items, key=lambda item: item.x)]
    assert list(dict.fromkeys(drawn)) == list("مرحبا")[::-1]  # a letter's dot may be a glyph of its own


def test_svg_needs_no_font_and_loads_nothing(tmp_path: Path) -> None:
    text = picture(_square(TOKENS), tmp_path / "a.svg").read_text("utf-8")
    root = tree.fromstring(text)
    names = {element.tag.rsplit("}", 1)[-1] for element in root.iter()}
    assert "text" not in names and "image" not in names and "script" not in names
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.endswith("href") or value.startswith("#")


def test_the_same_view_is_the_same_file(tmp_path: Path) -> None:
    first, second = (picture(_square(["a", "今"]), tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second


def test_a_users_style_does_not_leak_in_or_out(tmp_path: Path) -> None:
    plain = picture(_square(["a", "b"]), tmp_path / "a.png").read_bytes()
    style = {"axes.grid": True, "svg.fonttype": "none", "text.usetex": True, "font.size": 30}
    with matplotlib.rc_context(style):
        assert picture(_square(["a", "b"]), tmp_path / "b.png").read_bytes() == plain
        assert {name: matplotlib.rcParams[name] for name in style} == style


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 400), (400, 1), (211, 307)])
def test_any_size_fits_and_thinned_labels_stay_at_their_cells(rows: int, columns: int) -> None:
    matrix = Matrix(np.zeros((rows, columns)), [f"r{at}" for at in range(rows)], [f"c{at}" for at in range(columns)])
    drawn = figure(View("alignment", "", [matrix]))
    assert max(drawn.get_size_inches()) < 40
    for letter, ticks in zip("rc", _ticks(drawn), strict=True):
        assert [label for place, label in ticks] == [f"{letter}{int(place)}" for place, label in ticks]
    thinned = max(rows, columns) > 168
    assert any("Too many labels" in text.get_text() for text in drawn.texts) == thinned


@pytest.mark.parametrize(("language", "note"), [("en", "A weight is not an effect"), ("zh", "权重不等于作用")])
def test_says_that_a_weight_is_not_an_effect(language: str, note: str) -> None:
    drawn = figure(View("alignment", "", [Matrix([[1.0]], ["a"], ["b"])], language=language))
    assert any(note in text.get_text() for text in drawn.texts)


def test_many_heads_lie_side_by_side_and_too_many_are_an_error() -> None:
    heads = [Matrix(np.eye(3), list("abc"), list("abc"), title=f"head {at}") for at in range(7)]
    drawn = figure(View("attention", "", heads))
    corners = {tuple(round(x, 3) for x in axes.get_position().bounds[:2]) for axes in drawn.axes[:7]}
    assert len(corners) == 7 and len({x for x, _ in corners}) > 1 and len({y for _, y in corners}) > 1
    with pytest.raises(DataError, match=f"at most {MOST_MATRICES} matrices.*70"):
        figure(View("attention", "", heads * 10))


def test_without_a_font_chinese_is_a_code_point_not_a_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_PACKAGES", ())
    monkeypatch.setattr(fonts, "_system", lambda: ())
    for cached in (fonts._standing, fonts._face):
        cached.cache_clear()
    try:
        assert drawable("今a😀\u0627") == "U+4ECAa😀\u0627"  # matplotlib's own font knows this emoji and Arabic
        picture(_square(["今天", "मस", "👩\u200d👩\u200d👧"]), tmp_path / "a.png")
    finally:
        for cached in (fonts._standing, fonts._face):
            cached.cache_clear()
