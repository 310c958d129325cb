import json

import pytest

from regard.data.pairs.parallel_text import Pair, read_jsonl, read_pairs, read_tsv
from regard.data.translation.corpus import read_corpus
from regard.data.translation.settings import CorpusSettings
from regard.errors import DataError
from tests.shared import SHARED, needs_shared


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_b29_line_aligned_files_keep_empty_lines(tmp_path):
    source = write(tmp_path / "s", "a b\n\nc\n")
    target = write(tmp_path / "t", "x\ny\n\n")
    assert read_pairs(source, target) == [
        Pair("a b", "x", str(source), 1),
        Pair("", "y", str(source), 2),
        Pair("c", "", str(source), 3),
    ]


def test_unequal_files_are_named_with_both_counts(tmp_path):
    source, target = write(tmp_path / "s", "a\nb\nc\n"), write(tmp_path / "t", "x\ny")
    with pytest.raises(DataError, match=r"s has 3 lines and .*t has 2;"):
        read_pairs(source, target)


def test_tsv_has_two_columns_or_more(tmp_path):
    path = write(tmp_path / "p.tsv", "Hi.\t嗨。\tCC-BY 2.0 #538123\n\t\na\tb\n")
    assert [(pair.source, pair.target, pair.line) for pair in read_tsv(path)] == [
        ("Hi.", "嗨。", 1),
        ("", "", 2),
        ("a", "b", 3),
    ]
    with pytest.raises(DataError, match=r"p\.tsv, line 2: no tab"):
        read_tsv(write(path, "a\tb\na b\n"))


def test_columns_of_a_tsv_are_chosen_and_swapped(tmp_path):
    path = write(tmp_path / "p.tsv", "7\tHi.\t嗨。\n8\tGo.\t走。\n")
    assert [(pair.source, pair.target) for pair in read_tsv(path, columns=(3, 2))] == [("嗨。", "Hi."), ("走。", "Go.")]
    assert read_corpus(CorpusSettings(tsv=path, columns=(2, 1)))[1] == Pair("Go.", "8", str(path), 2)
    with pytest.raises(DataError, match=r"p\.tsv, line 2: 2 columns; expected the source in column 3"):
        read_tsv(write(path, "a\tb\tc\na\tb\n"), columns=(3, 1))


def test_jsonl_with_and_without_links(tmp_path):
    path = tmp_path / "p.jsonl"
    items = [
        {"source": "a b", "target": "x y", "links": [[0, 1], [1, 0]], "possible": [[0, 0]], "id": 7},
        {"source": "c", "target": "z"},
        {"source": "c", "target": "z", "links": []},
    ]
    write(path, "\n".join(map(json.dumps, items)))
    first, second, third = read_jsonl(path)
    assert first.links == {(0, 1), (1, 0)}
    assert first.possible == {(0, 1), (1, 0), (0, 0)}
    assert second == Pair("c", "z", str(path), 2)
    assert third.links == frozenset()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[1]", "an object"),
        ('{"source": "a"}', "'target' must be a text, got 'null'"),
        ('{"source": 3, "target": "a"}', "'source' must be a text, got '3'"),
        ('{"source": "a\\nb", "target": "a"}', "'source' holds a line break"),
        ('{"source": "\\ud800", "target": "a"}', "'source' holds half of a surrogate pair"),
        ('{"source": "a", "target": "a", "links": [[0]]}', "'links' must be"),
        ('{"source": "a", "target": "a", "links": [[0, -1]]}', "'links' must be"),
        ('{"source": "a", "target": "a", "links": [[true, 1]]}', "'links' must be"),
        ('{"source": "a.", "target": "a", "links": [[1, 1]]}', "names target word 1, but the target has 1 words"),
        ('{"source": "a", "target": "a b", "possible": [[1, 1]]}', "names source word 1, but the source has 1 words"),
        ('{"source": "a", "target": "a", "possible": 5}', "'possible' must be"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = write(tmp_path / "p.jsonl", '{"source": "a", "target": "b"}\n' + line + "\n")
    with pytest.raises(DataError, match=r"p\.jsonl, line 2: ") as caught:
        read_jsonl(path)
    assert message in str(caught.value)


@needs_shared
def test_tatoeba_is_read_whole():
    pairs = read_tsv(SHARED / "data" / "tatoeba" / "cmn.txt")
    assert len(pairs) == 22_075
    assert (pairs[0].source, pairs[0].target) == ("Hi.", "嗨。")
    assert all(pair.source and pair.target for pair in pairs)
