"""Heat maps as text, in every width and script."""

import re

import numpy as np
import pytest

from regard.views.labels import width_of
from regard.views.terminal.terminal import terminal
from regard.views.view import Matrix, View

HOSTILE = [
    "今天",
    "2026年",
    "👩\u200d👩\u200d👧",
    "مرحبا",
    "שלום",
    "e\u0301te\u0301",
    "नमस्ते",
    " ",
    "\n",
    "</s>",
    "\x1b[2J",
]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _weights(rows: int, columns: int) -> np.ndarray:
    raw = np.random.default_rng(0).random((rows, columns)) ** 4
    return raw / raw.sum(axis=1, keepdims=True)


def test_source_by_target_with_the_right_labels() -> None:
    matrix = Matrix([[0.75, 0.25], [0.0, 1.0], [0.5, 0.125]], ["das", "Haus", "!"], ["the", "house"], "one")
    expected = [
        "one",
        "target ↓  source →",
        "      the house",
        " das ▓.75 ░░.25",
        "Haus    0 ██1.0",
        "   ! ▒.50 ░░.12",
        "",
        "A weight is not an effect: it shows where the model looked, not what",
        "changed its answer.",
    ]
    lines = terminal(View("alignment", "", [matrix]), width=70, color=False).split("\n")
    assert lines == expected


@pytest.mark.parametrize("width", [20, 40, 61, 80, 120, 200])
@pytest.mark.parametrize("color", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, color: bool) -> None:
    longer = [f"unbelievable{at}" for at in range(23)]
    matrices = [
        Matrix(_weights(11, 11), HOSTILE, HOSTILE, "标题 with مرحبا"),
        Matrix(_weights(2, 23), ["x" * 90, "y"], longer),
        Matrix(_weights(3, 1), ["a", "b", "c"], ["长" * 70]),
    ]
    text = _plain(terminal(View("alignment", "a title " * 20, matrices, ["注" * 130]), width=width, color=color))
    assert max(width_of(line) for line in text.split("\n")) <= width


@pytest.mark.parametrize("width", [40, 80, 200])
def test_panels_show_every_cell_once(width: int) -> None:
    values = np.arange(3 * 29).reshape(3, 29) / 100
    text = terminal(
        View("alignment", "", [Matrix(values, ["a", "b", "c"], [f"w{at}" for at in range(29)])]), width, False
    )
    for row, label in enumerate("abc"):
        lines = [line for line in text.split("\n") if line.startswith(f"{label} ")]
        shown = [float(cell) for line in lines for cell in re.findall(r"\.\d\d|(?<![.\d])0(?!\.)", line[1:])]
        assert shown == values[row].tolist()
    assert re.findall(r"w\d+", text) == [f"w{at}" for at in range(29)]


def test_cells_stand_under_their_labels_in_every_script() -> None:
    labels = ["今天", "👩\u200d👩\u200d👧", "מים", "e\u0301", "नमस्ते", "🇫🇷"]
    text = terminal(View("alignment", "", [Matrix(np.eye(6), labels, labels)]), 100, False)
    _, head, *rows = text.split("\n")[:8]
    for at, (line, label) in enumerate(zip(rows, labels, strict=True)):
        start = width_of(head[: head.index(label)])
        strongest = width_of(line[: line.index("1.0")])
        assert strongest - 5 <= start <= strongest + 3, (at, label)
        assert width_of(line) == width_of(rows[0])


def test_a_right_to_left_label_cannot_reorder_its_line() -> None:
    text = terminal(View("alignment", "", [Matrix([[0.5, 0.25]], ["مرحبا"], ["שלום", "עולם"])]), 80, False)
    for label in ("مرحبا", "שלום", "עולם"):
        assert f"\u200e{label}\u200e" in text


def test_escape_sequences_in_labels_are_shown_not_obeyed() -> None:
    view = View("alignment", "\x1b]0;owned\x07", [Matrix([[1.0]], ["\x1b[2J"], ["\x9b1m"])], ["\x1b[31m"])
    text = terminal(view, 80, color=False)
    assert "\x1b" not in text and "\x9b" not in text and "\x07" not in text
    assert "U+001B[2J" in text and "U+009B1m" in text


def test_colour_is_256_colours_at_least_and_stronger_is_another_shade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    text = terminal(View("alignment", "", [Matrix([[0.0, 0.4, 1.0]], ["a"], ["b", "c", "d"])]), 80, color=True)
    backgrounds = re.findall(r"48;(?:5;\d+|2;\d+;\d+;\d+)", text)
    assert len(set(backgrounds)) == 2  # zero keeps the terminal's own
    assert _plain(text).split("\n")[2].split() == ["a", "0", ".40", "1.0"]


def test_no_colour_where_nobody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in terminal(View("alignment", "t", [Matrix([[1.0]], ["a"], ["b"])]))


def test_B47_an_empty_matrix_shows_no_data() -> None:
    empty = Matrix(np.zeros((0, 2)), [], ["a", "b"])
    assert "no data" in terminal(View("alignment", "t", [empty]), 80, False)
    assert "没有数据" in terminal(View("alignment", "t", [], language="zh"), 80, False)
    assert "inf" not in terminal(View("alignment", "t", [empty]), 80, False)


def test_what_is_no_number_is_named() -> None:
    text = terminal(View("alignment", "", [Matrix([[np.nan, np.inf, -np.inf, 0.5]], ["a"], list("bcde"))]), 80, False)
    assert re.search(r"nan.*∞.*−∞.*\.50", text)


def test_the_note_speaks_the_views_language() -> None:
    matrix = Matrix([[1.0]], ["a"], ["b"])
    assert "A weight is not an effect" in terminal(View("alignment", "", [matrix]), 100, False)
    chinese = terminal(View("alignment", "", [matrix], language="zh"), 100, False)
    assert "权重不等于作用" in chinese and "目标 ↓  来源 →" in chinese
