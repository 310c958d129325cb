"""The page: one file that loads nothing, in which every token stands as it is."""

import base64
import hashlib
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from fontTools.ttLib import TTFont

from regard.views.page.page import page
from regard.views.view import Matrix, View

B45 = ["hello", "x<!--#y", "world", "-->", "<script>1</script>", "a&b", "</s>"]


class Reader(HTMLParser):
    """What a browser would make of the page: elements with attributes, text by cell, scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[str] = []
        self.columns: list[str] = []
        self.cells: list[str] = []
        self.raw: dict[str, str] = {}
        self.text = ""
        self._into: list[str] | None = None
        self._raw = ""
        self.comments: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag in ("script", "style"):
            self._raw = tag
        if tag in ("th", "td", "tr"):
            self._into = None
        if tag == "th":
            self._into = self.rows if found["scope"] == "row" else self.columns
            self._into.append("")
        elif tag == "td" and found.get("class") != "corner":
            self._into = self.cells
            self._into.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._raw = ""
        if tag in ("th", "td", "tr", "table"):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._raw:
            self.raw[self._raw] = self.raw.get(self._raw, "") + data
            return
        self.text += data
        if self._into is not None:
            self._into[-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def _view(*matrices: Matrix, **options: str) -> View:
    return View("alignment", "English → French", matrices, **options)  # type: ignore[arg-type]


def test_B45_every_token_stands_literally_and_in_order() -> None:
    values = np.arange(49).reshape(7, 7) / 100
    read = Reader(page(_view(Matrix(values, B45, B45[::-1], title="</title><script>alert(1)</script>"))))
    assert read.rows == B45
    assert read.columns == B45[::-1]
    assert [float(cell) for cell in read.cells] == values.ravel().tolist()
    assert [tag for tag, _ in read.elements].count("script") == 1
    assert read.comments == []
    assert "</title><script>alert(1)</script>" in read.text


def test_repeated_blank_and_odd_tokens_are_shown() -> None:
    labels = ["the", "the", "", " ", "\n", "\u202e", 'say "hi"', "'", "\u2028"]
    read = Reader(page(_view(Matrix(np.eye(9), labels, labels))))
    assert read.rows == ["the", "the", "∅", "␣", "⏎", "U+202E", 'say␣"hi"', "'", "U+2028"]
    assert read.columns == read.rows


def test_nothing_is_loaded_and_only_our_own_script_and_style_may_run() -> None:
    text = page(_view(Matrix(np.eye(2), ["http://a.example", "今天"], ["👍", "b"]), notes=("https://b.example",)))
    read = Reader(text)
    policies = [
        found["content"] for tag, found in read.elements if found.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies and policies[0] is not None
    allowed = dict(part.strip().split(" ", 1) for part in policies[0].split(";"))

    def digest(raw: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode()}'"

    assert allowed == {
        "default-src": "'none'",
        "style-src": digest(read.raw["style"]),
        "script-src": digest(read.raw["script"]),
        "font-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    for tag, found in read.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not any(name.startswith("on") or name in ("src", "style", "srcset") for name in found), (tag, found)
        assert (found.get("href") or "#").startswith("#")
    sources = re.findall(r"url\((.{5})", read.raw["style"])
    assert sources and set(sources) == {"data:"}
    assert "@import" not in read.raw["style"] and "http" not in read.raw["style"] + read.raw["script"]


def test_reads_as_a_table_with_heads_in_its_language() -> None:
    matrix = Matrix(np.eye(2), ["猫", "مرحبا"], ["a", "b"])
    read = Reader(page(_view(matrix, matrix, language="zh")))
    assert ("html", {"lang": "zh-Hans"}) in read.elements
    assert sum(tag == "th" and found["scope"] == "col" for tag, found in read.elements) == 4
    regions = [found for _, found in read.elements if found.get("role") == "region"]
    assert [found["tabindex"] for found in regions] == ["0", "0"]
    names = {found.get("id") for _, found in read.elements}
    assert all(found["aria-labelledby"] in names for found in regions)
    assert sum(tag == "bdi" for tag, _ in read.elements) == 8  # a right-to-left token cannot reorder its cell
    assert "目标" in read.text and "来源" in read.text


@pytest.mark.parametrize(("language", "note"), [("en", "A weight is not an effect"), ("zh", "权重不等于作用")])
def test_says_that_a_weight_is_not_an_effect(language: str, note: str) -> None:
    assert note in Reader(page(_view(Matrix([[1.0]], ["a"], ["b"]), language=language))).text


def test_100_by_100_stays_under_2_megabytes() -> None:
    rng = np.random.default_rng(0)
    long = Matrix(
        rng.random((100, 100)), [f"<target & {at}>" for at in range(100)], [f"source'{at}\"" for at in range(100)]
    )
    chinese = [chr(0x4E00 + 37 * at) * 2 for at in range(100)]
    for matrix in (long, Matrix(rng.random((100, 100)), chinese, chinese[::-1])):
        size = len(page(_view(matrix)).encode("utf-8"))
        assert size < 2_000_000, size


def test_B47_an_empty_matrix_shows_no_data() -> None:
    for view in (_view(Matrix([], [], ["a", "b"])), _view()):
        read = Reader(page(view))
        assert "no data" in read.text
        assert read.cells == [] and "∞" not in read.text and "inf" not in read.text


def test_what_is_no_number_is_named() -> None:
    read = Reader(page(_view(Matrix([[np.nan, np.inf, -np.inf, -0.25, 0.0, 2e-5]], ["a"], list("bcdefg")))))
    assert read.cells == ["nan", "∞", "−∞", "−0.250", "0", "2e−05"]
    shades = [found["class"] for tag, found in read.elements if tag == "td" and found["class"] != "corner"]
    assert shades == ["none", "a50", "b50", "b50", "a0", "a0"]


def test_stronger_numbers_have_stronger_shades() -> None:
    read = Reader(page(_view(Matrix([[0.0, 0.1, 0.2, 0.4]], ["a"], list("bcde")))))
    shades = [found["class"] for tag, found in read.elements if tag == "td" and found["class"] != "corner"]
    assert shades == ["a0", "a12", "a25", "a50"]
    assert all(f".a{step}{{" in read.raw["style"] for step in (0, 12, 25, 50))


def test_glyphs_that_a_reader_may_lack_travel_with_the_page() -> None:
    tokens = ["今天", "👩\u200d👩\u200d👧", "🇫🇷", "مرحبا", "שלום", "नमस्ते", "カ"]
    style = Reader(page(_view(Matrix(np.eye(7), tokens, tokens)))).raw["style"]
    covered: set[int] = set()
    for rule in re.findall(r"@font-face\{[^}]*\}", style):
        source = re.search(r"base64,([^)]*)\)", rule)
        assert source is not None
        glyphs = TTFont(io.BytesIO(base64.b64decode(source[1]))).getBestCmap()
        reach = {int(code, 16) for code in re.findall(r"U\+([0-9A-F]+)", rule)}
        covered |= reach & set(glyphs)
    assert {ord(character) for character in "".join(tokens)} <= covered
    assert re.search(r'font: 16px/1.5 "regard"', style)
    assert "@font-face" not in Reader(page(_view(Matrix([[1.0]], ["naïve"], ["…"])))).raw["style"]


def test_many_matrices_have_a_list_of_contents() -> None:
    matrices = [Matrix([[1.0]], ["a"], ["b"], title=f"sentence {at}") for at in range(5)]
    read = Reader(page(_view(*matrices)))
    links = [found["href"] for tag, found in read.elements if tag == "a"]
    assert links == ["#m1", "#m2", "#m3", "#m4", "#m5"]
    assert {link[1:] for link in links if link} <= {found.get("id") for _, found in read.elements}
