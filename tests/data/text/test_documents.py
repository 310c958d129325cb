"""Text from files, folders, JSON Lines and JSON, and its three parts."""

import gzip
import json
import zipfile

import pytest

from regard.data.language.held_out import read_parts, text_size, vocabulary_lines
from regard.data.language.settings import LanguageData
from regard.data.text.documents import files_of, iterate_text
from regard.errors import ConfigError, DataError


def told(*paths, fields=("text",)):
    """Each line, with a bar before the first of a document."""
    return ["|" * line.first + line.text for line in iterate_text(list(paths), fields)]


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "texts"
    (inside / "deep").mkdir(parents=True)
    (inside / "b.txt").write_text("b1\n\nb2\n")
    (inside / "deep" / "c.md").write_text("c1\n")
    (inside / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a1\\na2"}\n\n"plain"\n'))
    (inside / "picture.png").write_bytes(b"\x89PNG")
    (inside / ".hidden.txt").write_text("no\n")
    return inside


def test_a_folder_is_its_files_of_text_in_the_order_of_their_names(folder, tmp_path):
    assert [file.name for file in files_of([folder])] == ["a.jsonl.gz", "b.txt", "c.md"]
    assert told(folder) == ["|a1", "a2", "|plain", "|b1", "", "b2", "|c1"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="holds no file of text; one ends with .txt"):
        told(empty)


def test_documents_may_lie_in_a_zip_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b/c.jsonl", '\ufeff{"text": "one\\r\\ntwo\\n"}\r\n{"text": ""}\n')
    assert told(tmp_path / "a.zip" / "b" / "c.jsonl") == ["|one", "two"]


def test_fields_of_json_are_read_in_their_order(tmp_path):
    path = tmp_path / "poems.json"
    poems = [{"title": "t", "paragraphs": ["一，", "二。"], "author": "x"}, {"title": " ", "paragraphs": []}]
    path.write_text(json.dumps(poems, ensure_ascii=False), encoding="utf-8")
    assert told(path, fields=["title", "paragraphs"]) == ["|t", "一，", "二。"]  # a blank document is none
    with pytest.raises(DataError, match="poems.json, entry 2: there is no field 'author'. Known: paragraphs, title."):
        told(path, fields=["author"])


def test_a_line_of_json_that_cannot_be_used_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    for line, wanted in [
        ('{"text": 1}', "holds neither a string nor a list"),
        ('{"texts": "a"}', "there is no field 'text'. Did you mean 'texts'"),
        ("{", "this is not JSON"),
        ("[" * 100_000, "this is not JSON"),
        ("3", "an object with the field 'text', or a string"),
    ]:
        path.write_text('{"text": "good"}\n' + line + "\n")
        with pytest.raises(DataError, match="a.jsonl, line 2") as error:
            told(path)
        assert wanted in str(error.value)
    whole = tmp_path / "a.json"
    whole.write_text('{"text": "a"}')
    with pytest.raises(DataError, match="a list of documents is expected"):
        told(whole)


def test_the_last_lines_are_held_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {number}\n" for number in range(10)))
    parts = read_parts(LanguageData(text=path, validation_share=0.2, test_share=0.1))
    assert [line.text for line in parts["training"]] == [f"line {number}" for number in range(7)]
    assert [[line.text for line in parts[name]] for name in ("validation", "test")] == [
        ["line 7", "line 8"],
        ["line 9"],
    ]
    other = tmp_path / "b.txt"
    other.write_text("\ufeffother\n", encoding="utf-8")
    parts = read_parts(LanguageData(text=[path, other], validation=other, test=[other]))
    assert [len(parts[name]) for name in parts] == [11, 1, 1]
    none = read_parts(LanguageData(text=path, test_share=0))
    assert [len(none[name]) for name in none] == [9, 1, 0]


def test_a_share_of_characters_cuts_a_line_whose_end_is_in_the_later_part(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("abcd\nefgh\n")  # ten characters with the line ends
    settings = LanguageData(text=path, split="characters", validation_share=0.3, test_share=0.2)
    assert text_size(settings) == 10
    parts = read_parts(settings)
    assert [[(line.text, line.ends) for line in parts[name]] for name in parts] == [
        [("abcd", True)],
        [("efg", False)],
        [("h", True)],
    ]
    edge = LanguageData(text=path, split="characters", validation_share=0.6, test_share=0)
    assert [(line.text, line.ends) for line in read_parts(edge)["training"]] == [("abcd", False)]
    assert [(line.text, line.ends) for line in read_parts(edge)["validation"]] == [("", True), ("efgh", True)]


@pytest.mark.parametrize("split", ["lines", "characters"])
def test_no_document_is_cut_where_documents_have_borders(tmp_path, split):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"{number}\n{number}\n{number}"}) + "\n" for number in range(10)))
    settings = LanguageData(text=path, documents="marked", split=split, validation_share=0.25, test_share=0.15)
    parts = read_parts(settings)
    found = {name: [line.text for line in parts[name] if line.first] for name in parts}
    assert found == {"training": list("012345"), "validation": list("678"), "test": ["9"]}
    assert all(len(parts[name]) == 3 * len(found[name]) for name in parts)


def test_a_text_that_is_too_short_is_reported(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one line\n")
    with pytest.raises(DataError, match="to validate on are none or blank"):
        read_parts(LanguageData(text=path))
    path.write_text("")
    with pytest.raises(DataError, match="has 0 lines"):
        read_parts(LanguageData(text=path))
    with pytest.raises(ConfigError, match="no text is named"):
        read_parts(LanguageData())
    with pytest.raises(DataError, match="no such file"):
        read_parts(LanguageData(text=tmp_path / "none.txt"))


def test_the_vocabulary_is_learned_from_lines_of_training_evenly_spread(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{number}\n" for number in range(100)))
    whole = LanguageData(text=path)
    assert list(vocabulary_lines(whole, 100)) == [str(number) for number in range(80)]
    some = LanguageData(text=path, vocabulary_lines=4)
    assert list(vocabulary_lines(some, 100)) == ["19", "39", "59", "79"]
    assert len(list(vocabulary_lines(LanguageData(text=path, vocabulary_lines=99), 100))) == 80
