"""Labelled sentences: origins, errors with file and line, and a split that keeps copies together."""

import json
import zipfile
from collections import Counter

import pytest
import torch
from pydantic import ValidationError

from regard.data.classification.batches import SentenceBatches
from regard.data.classification.labelled import labels_of, read_labelled
from regard.data.classification.settings import ClassificationData, LabelledSettings
from regard.data.text.hash_split import none_for, part_of
from regard.errors import ConfigError, DataError
from tests.shared import SHARED, needs_shared


def texts(settings):
    return [(one.text, one.label) for one in read_labelled(settings)]


def test_each_origin_gives_the_same_sentences(tmp_path):
    wanted = [("good film", "pos"), ("dull", "neg"), ("fine", "pos")]
    table, objects = tmp_path / "a.tsv", tmp_path / "a.jsonl"
    # A byte-order mark, blank lines, a label before its text, no break at the end (K8: B29, B31).
    table.write_text("\ufeffpos\tx\tgood film\n\nneg\tx\tdull\r\npos\tx\tfine", encoding="utf-8")
    objects.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in wanted), "utf-8")
    assert texts(LabelledSettings(tsv=table, columns=(3, 1))) == wanted
    assert texts(LabelledSettings(jsonl=objects)) == wanted
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("set/a.pos", "good film\nfine\n")
        archive.writestr("set/a.neg", "\n \ndull\n")
    files = {"pos": tmp_path / "a.zip/set/a.pos", "neg": tmp_path / "a.zip/set/a.neg"}
    found = read_labelled(LabelledSettings(files=files))
    assert sorted((one.text, one.label) for one in found) == sorted(wanted)
    assert found[-1].place.endswith("a.neg, line 3")
    assert labels_of(found) == ["neg", "pos"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a\tpos\nb\n", "line 2: 1 columns"),
        ("a\t \n", "label ' ' is blank"),
        ("\n \n", "no sentences"),
        (b"a\tpos\n\xff\tneg\n", "line 2: byte 0xff"),
    ],
)
def test_a_bad_table_is_reported_with_file_and_line(tmp_path, content, told):
    path = tmp_path / "a.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=told):
        read_labelled(LabelledSettings(tsv=path))


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "a", "label": "b\\nc"}',
        '{"text": "a"}',
        "[1]",
        '{"text": 3, "label": "x"}',
        '{"text": "a", "label": 0.5}',
        "{",
    ],
)
def test_a_bad_object_is_reported_with_file_and_line(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": 1}\n' + line + "\n")
    with pytest.raises(DataError, match="line 2"):
        read_labelled(LabelledSettings(jsonl=path))


def test_a_label_of_a_file_is_one_that_a_line_can_hold_k8(tmp_path):
    """A label stands in a line of its own and before a tab where sentences are classified."""
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    for label in ("", " ", "a\tb", "a\nb", "a\rb"):
        with pytest.raises(DataError, match=r"the file .*a\.txt: the label .* is blank or holds"):
            read_labelled(LabelledSettings(files={label: path}))
    assert read_labelled(LabelledSettings(files={" b c ": path}))[0].label == "b c"


def test_labels_that_cannot_be_told_apart(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\tx\nb\tx\n")
    with pytest.raises(DataError, match="at least two labels"):
        labels_of(read_labelled(LabelledSettings(tsv=path)))
    path.write_text("".join(f"a\tlabel {number}\n" for number in range(1001)))
    with pytest.raises(DataError, match="surely no labels"):
        labels_of(read_labelled(LabelledSettings(tsv=path)))


def test_settings_that_contradict_are_refused(tmp_path):
    with pytest.raises(ValidationError, match="choose one origin"):
        LabelledSettings(tsv="a", jsonl="b")
    with pytest.raises(ValidationError, match="leave nothing to train on"):
        ClassificationData(validation_share=0.5, test_share=0.5)
    with pytest.raises(ValidationError, match="column 2 twice"):
        LabelledSettings(tsv="a", columns=(2, 2))
    with pytest.raises(ConfigError, match="no sentences are named"):
        read_labelled(LabelledSettings())


def test_the_split_is_of_the_text_alone():
    """The same text is on the same side, however it is spaced or cased, and the shares are those asked for."""
    assert len({part_of(text, 0.3, 0.3) for text in ("A  Film ", "a film", "a\tFILM")}) == 1
    counts = Counter(part_of(f"text {number}", 0.1, 0.2) for number in range(3_000))
    assert counts["test"] == pytest.approx(600, abs=70) and counts["validation"] == pytest.approx(300, abs=50)
    # Known ones, so that no version of this moves sentences from training to test.
    assert [part_of(text, 0.1, 0.1) for text in "bcd"] == ["training", "validation", "test"]


def test_a_part_without_a_text_says_why_and_what_helps():
    copies = none_for("validation", ["A  Film", "a film", "a\tFILM", "it"])
    assert copies == (
        "4 sentences (2 of them different; copies of one are all in one part) are too few: none of them is for "
        "validation. Give more different ones, or it a larger share: data.validation_share"
    )
    assert none_for("test", ["a", "b"]) == (
        "2 sentences are too few: none of them is for test. Give more different ones, or it a larger share: "
        "data.test_share"
    )
    assert none_for("training", ["c"]).endswith(
        "smaller shares to the other parts: data.validation_share, data.test_share"
    )


@needs_shared
def test_the_polarity_data_are_read_from_inside_their_archive():
    inside = SHARED / "data/sentiment/sentence_polarity.zip/sentence_polarity"
    files = {"positive": inside / "rt-polarity.pos", "negative": inside / "rt-polarity.neg"}
    found = read_labelled(LabelledSettings(files=files))
    assert Counter(one.label for one in found) == {"positive": 5331, "negative": 5331}
    parts = Counter(part_of(one.text, 0.1, 0.1) for one in found)
    assert parts == {"training": 8623, "validation": 1041, "test": 998}


def test_batches_hold_each_sentence_once_and_pad_with_0():
    ids = [[7] * length for length in (3, 1, 5, 2, 2)]
    batches = SentenceBatches(ids, [0, 1, 1, 0, 1], tokens=6, seed=3)
    for epoch in (0, 1):
        plan = batches.plan(epoch)
        assert sorted(at for batch in plan for at in batch) == [0, 1, 2, 3, 4]
        assert plan == SentenceBatches(ids, [0, 1, 1, 0, 1], tokens=6, seed=3).plan(epoch)
        for batch in map(batches.load, plan):
            assert batch.ids.numel() <= 6
    batch = batches.load([2, 1])
    assert batch.ids.tolist() == [[7] * 5, [7, 0, 0, 0, 0]]
    assert batch.lengths.tolist() == [5, 1] and batch.labels.tolist() == [1, 1] and len(batch) == 2
    assert batch.to(torch.device("cpu")).index.tolist() == [2, 1]
