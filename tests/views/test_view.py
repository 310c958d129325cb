"""A view is data that cannot be inconsistent."""

import numpy as np
import pytest
import torch

from regard.errors import ConfigError, DataError, ShapeError
from regard.views.labels import is_right_to_left, readable, shorten, visible, width_of
from regard.views.scale import DARK, LIGHT, Scale, brief, exact, ink, shade
from regard.views.view import KINDS, Kind, Matrix, View


def test_B47_labels_of_another_size_are_an_error_with_both_numbers() -> None:
    with pytest.raises(ShapeError, match=r"5 row labels for 2 rows: the matrix is 2 × 4"):
        Matrix(np.ones((2, 4)), ["in", "put", "all", "out", "put"], list("abcd"))
    with pytest.raises(ShapeError, match=r"3 column labels for 4 columns"):
        Matrix(np.ones((2, 4)), ["out", "put"], list("abc"))


def test_B47_repeated_labels_keep_separate_rows() -> None:
    matrix = Matrix([[0.25, 0.75], [1.0, 0.0]], ["the", "the"], ["le", "le"])
    assert matrix.rows == ("the", "the")
    assert matrix.values.tolist() == [[0.25, 0.75], [1.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_are_taken_off_their_graph_and_kept_exactly(dtype: torch.dtype) -> None:
    weights = torch.tensor([[0.5, 0.1, 0.4]], dtype=dtype, requires_grad=True)
    matrix = Matrix(weights, ["x"], ["a", "b", "c"])
    assert matrix.values.dtype == np.float64
    assert matrix.values.tolist() == weights.detach().double().tolist()


def test_values_are_a_copy_that_nobody_can_change() -> None:
    given = np.ones((1, 1))
    matrix = Matrix(given, ["a"], ["b"])
    given[0, 0] = 7
    assert matrix.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        matrix.values[0, 0] = 2


@pytest.mark.parametrize(
    ("values", "rows", "columns", "shape"),
    [([], [], [], (0, 0)), ([], [], ["a", "b"], (0, 2)), ([[], [], []], ["x", "y", "z"], [], (3, 0))],
)
def test_B47_empty_matrices_are_matrices(values: list, rows: list[str], columns: list[str], shape: tuple) -> None:
    assert Matrix(values, rows, columns).values.shape == shape


def test_what_is_no_matrix_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"shape \(2, 3, 5\).*one item and one head"):
        Matrix(np.ones((2, 3, 5)), ["a"] * 3, ["b"] * 5)
    with pytest.raises(ShapeError, match="equal length"):
        Matrix([[1.0], [1.0, 2.0]], ["a", "b"], ["c"])
    with pytest.raises(DataError, match="half a character"):
        Matrix([[1.0]], ["\ud83d"], ["c"])


def test_kinds_and_languages_by_name() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'alignment'"):
        View("alignmnt", "", [])
    with pytest.raises(ConfigError, match="'fr'.*Known: en, zh"):
        View("alignment", "", [], language="fr")


def test_weights_always_say_that_a_weight_is_not_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    english = View("alignment", "", [], ["two", "notes"])
    assert english.all_notes[0].startswith("A weight is not an effect")
    assert english.all_notes[1:] == ("two", "notes")
    assert View("attention", "", [], "one", language="zh").all_notes[0].startswith("权重不等于作用")
    axes = {"en": "word", "zh": "词"}
    monkeypatch.setitem(KINDS, "effect", Kind(False, axes, axes))
    assert View("effect", "", [], ["measured"]).all_notes == ("measured",)


def test_axes_come_from_the_kind_unless_the_matrix_says() -> None:
    view = View("alignment", "", [], language="zh")
    assert view.axes(Matrix([[1.0]], ["a"], ["b"])) == ("目标", "来源")
    assert view.axes(Matrix([[1.0]], ["a"], ["b"], row_axis="head", column_axis="")) == ("head", "来源")


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("", "∅"),
        (" ", "␣"),
        ("New York", "New␣York"),
        ("\n", "⏎"),
        ("\r\n", "␍⏎"),
        ("\t", "⇥"),
        ("\x1b[31m", "U+001B[31m"),
        ("\x00", "U+0000"),
        ("\u00a0", "U+00A0"),
        ("\u200b", "U+200B"),
        ("\u202eabc", "U+202Eabc"),  # would write all that follows backwards
        ("\ufeffthe", "U+FEFFthe"),
        ("\ue000", "U+E000"),
        ("\u200d", "U+200D"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("👩\u200d👩\u200d👧", "👩\u200d👩\u200d👧"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("▁the", "▁the"),
        ("</s>", "</s>"),
        ("2026年", "2026年"),
    ],
)
def test_nothing_in_a_label_is_invisible_or_dropped(label: str, shown: str) -> None:
    assert visible(label) == shown


def test_titles_keep_their_spaces() -> None:
    assert readable("a  b\nc ") == "a  b⏎c "


@pytest.mark.parametrize(
    ("label", "width", "shown"),
    [
        ("attention", 9, "attention"),
        ("attention", 5, "atte…"),
        ("注意力机制", 5, "注意…"),
        ("注意力机制", 6, "注意…"),
        ("e\u0301te\u0301s", 3, "e\u0301t…"),
        ("👩\u200d👩\u200d👧👍🏽x", 4, "👩\u200d👩\u200d👧…"),
        ("abc", 1, "…"),
    ],
)
def test_labels_are_cut_between_characters(label: str, width: int, shown: str) -> None:
    assert shorten(label, width) == shown
    assert width_of(shown) <= width


def test_which_labels_are_right_to_left() -> None:
    assert [is_right_to_left(text) for text in ("שלום", "مرحبا", "٣", "abc", "12", "中")] == [True] * 3 + [False] * 3


def test_scale_is_shared_and_ignores_what_is_no_number() -> None:
    columns = ["b", "c"]
    view = View("alignment", "", [Matrix([[0.2, np.nan]], ["a"], columns), Matrix([[np.inf, 0.5]], ["a"], columns)])
    scale = Scale.of(view)
    assert (scale.high, scale.signed) == (0.5, False)
    assert scale.levels(np.array([0.0, 0.25, 0.5, np.inf, np.nan])).tolist() == [0.0, 0.5, 1.0, 1.0, 0.0]
    signed = Scale.of(View("alignment", "", [Matrix([[-2.0, 1.0]], ["a"], columns)]))
    assert (signed.high, signed.signed) == (2.0, True)
    assert signed.levels(np.array([-1.0, -np.inf])).tolist() == [-0.5, -1.0]
    assert Scale.of(View("alignment", "", [])).high == 1.0  # never −∞ (B47), and nothing to divide by zero


def test_shades_are_the_ramps_colours_and_ink_can_be_read_on_them() -> None:
    assert (shade(LIGHT, 0.0), shade(LIGHT, 0.25), shade(LIGHT, 1.0)) == (LIGHT[0], LIGHT[1], LIGHT[4])
    assert shade(("#000000", "#ffffff"), 0.5) == "#808080"

    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    for ramp in (LIGHT, DARK):
        for step in range(51):
            paper = shade(ramp, step / 50)
            low, high = sorted((luminance(paper), luminance(ink(paper))))
            assert (high + 0.05) / (low + 0.05) >= 4.5  # WCAG 2 AA


@pytest.mark.parametrize(
    ("value", "short", "long"),
    [
        (0.0, "0", "0"),
        (0.4242, ".42", "0.4242"),
        (0.999, "1.0", "0.999"),
        (1.0, "1.0", "1"),
        (-0.5, "−.50", "−0.5"),
        (0.004, ".00", "0.004"),
        (12.34, "12", "12.34"),
        (-123456.0, "−1.2e5", "−1.235e+05"),
        (np.nan, "nan", "nan"),
        (np.inf, "∞", "∞"),
        (-np.inf, "−∞", "−∞"),
    ],
)
def test_numbers_as_people_read_them(value: float, short: str, long: str) -> None:
    assert brief(value) == short.replace("e+0", "e")
    assert exact(value) == long
