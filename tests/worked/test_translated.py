"""W4 by a trained translator, as it is printed."""

import pytest
from rich.cells import cell_len

from regard.worked.translated import Read, Translated, Written, show_translated, to_json


def translated(source, *written, note=()):
    """Steps whose numbers are easy to find again; each look is (piece, weights)."""
    steps = [
        Written(word, 0.5, [3.0, 4.0], [0.0] * len(weights), list(weights), [float(place)] * 5)
        for place, (word, weights) in enumerate(written)
    ]
    reads = [Read(word, [1.0, 2.0, 2.0, 0.0, 0.0]) for word in source]
    return Translated("runs/x", " ".join(source), "…", 7, "dot", "softmax", reads, steps, list(note))


LOOKS = [("je", (0.7, 0.1, 0.1, 0.1)), ("t", (0.1, 0.2, 0.6, 0.1)), ("'", (0.6, 0.2, 0.1, 0.1))]
LOOKS += [("aime", (0.1, 0.8, 0.1, 0.0)), ("</s>", (0.0, 0.0, 0.0, 1.0))]
SOURCE = ("I", "love", "you", "</s>")


def test_w4_the_articles_numbers_stand_under_the_runs():
    text = show_translated(translated(SOURCE, *LOOKS))
    assert text.startswith("W4  I love you </s> → …, by runs/x\n    words 7 wide, states 5, score dot, softmax;")
    lines = [line.split() for line in text.splitlines()]
    assert [line[-1] for line in lines if line[1:2] == ["reads"]] == list(SOURCE)
    assert [line[2] for line in lines if line[1:2] == ["writes"]] == ["je", "t", "'", "aime", "</s>"]
    assert [line[0] for line in lines if line[1:2] == ["writes"]] == ["5.", "6.", "7.", "8.", "9."]
    article = [line[2:] for line in lines if line[:2] == ["article:", "weights"]]
    apostrophe = ["0.1109", "0.0101", "0.8790"]  # the article's t' is two words here
    assert article == [["0.9386", "0.0204", "0.0410"], apostrophe, apostrophe, ["0.0304", "0.9492", "0.0204"]]
    assert ["article:", "scores", "-2.8000", "0.6400", "-3.2000"] in lines
    assert ["weights", "0.7000", "0.1000", "0.1000", "0.1000"] in lines
    assert ["state", "h3", "=", "1", "2", "2", "0", "…", "|h3|", "=", "3"] in lines  # the first four and the length
    assert ["state", "s1", "=", "3", "4", "|s1|", "=", "5"] in lines
    assert "3 of 4 steps that write what the article writes attend most to the article's source word." in text


def test_w4_columns_stand_under_the_source_tokens():
    lines = show_translated(translated(SOURCE, *LOOKS), "zh").splitlines()
    at = next(place for place, line in enumerate(lines) if line.lstrip().startswith("I "))
    names, weights = lines[at], lines[at + 3]
    assert weights.split() == ["权重", "0.7000", "0.1000", "0.1000", "0.1000"]
    ends = [cell_len(names[: names.index(name) + len(name)]) for name in SOURCE]  # Chinese letters are two wide
    assert cell_len(weights) == ends[-1]
    assert cell_len(weights[: weights.index("0.7000") + 6]) == ends[0]
    assert any("文中：权重" in line for line in lines)
    assert any("与文中写出相同内容的 4 步里，有 3 步" in line for line in lines)


@pytest.mark.parametrize(
    ("source", "first"),
    [(("We", "love", "you"), "je"), (("I", "love", "y", "ou"), "je"), (SOURCE, "nous")],
)
def test_w4_nothing_stands_beside_another_sentence(source, first):
    steps = translated(source, (first, [1.0] + [0.0] * (len(source) - 1)))
    text = show_translated(steps)
    assert "article:" not in text and "there is nothing to compare" in text
    assert to_json(steps)["written"][0]["article"] is None


def test_w4_tokens_with_spaces_and_capitals_are_the_same_words():
    looks = [("▁Je", (1.0, 0.0, 0.0)), ("▁t'", (0.0, 0.0, 1.0)), ("aime", (0.0, 1.0, 0.0)), (".", (0.0, 0.0, 1.0))]
    plain = to_json(translated(("i", "love", "you"), *looks))
    weights = [None if step["article"] is None else step["article"]["weights"] for step in plain["written"]]
    assert [row and [round(number, 4) for number in row] for row in weights] == [
        [0.9386, 0.0204, 0.0410], [0.1109, 0.0101, 0.8790], [0.0304, 0.9492, 0.0204], None,
    ]  # fmt: skip
    assert plain["read"][0] == {"word": "i", "state": [1.0, 2.0, 2.0, 0.0, 0.0]}
