"""Treebanks: words and tags of CoNLL-U, errors with file and line, and what words look like."""

from collections import Counter

import pytest
import torch
from pydantic import ValidationError

from regard.data.tagging.batches import UNTAGGED, TaggedBatches
from regard.data.tagging.conllu import read_conllu
from regard.data.tagging.settings import TaggingData
from regard.data.tagging.word_features import WordFeatures, features, shape
from regard.data.text.lines import iterate_lines
from regard.errors import DataError, RunError
from regard.vocabulary import UNKNOWN
from tests.shared import SHARED, needs_shared


def row(number, word, upos, xpos="_", relation="_"):
    return "\t".join([str(number), word, "_", upos, xpos, "_", "0", relation, "_", "_"])


def test_words_and_tags_without_ranges_empty_nodes_and_comments(tmp_path):
    """K8: a byte-order mark, several blank lines, no break at the end, a word with a space."""
    path = tmp_path / "a.conllu"
    lines = [
        "# text = du 10 000", row("1-2", "du", "_"), row(1, "de", "ADP", "P", "case"), row(2, "le", "DET", "D", "det"),
        row(3, "10 000", "NUM", "M", "obj"), "", "", "# another", row(1, "e\u0301te\u0301", "NOUN", "N", "root"),
        row("1.1", "nobody", "X"),
    ]  # fmt: skip
    path.write_bytes(("\ufeff" + "\r\n".join(lines)).encode())
    one, other = read_conllu([path])
    assert one.words == ["de", "le", "10 000"] and one.tags == ["ADP", "DET", "NUM"]
    assert one.place == f"{path}, line 3" and other.place == f"{path}, line 9"
    assert other.words == ["été"] and other.tags == ["NOUN"]  # NFC, and no word that nobody wrote
    assert [one.tags for one in read_conllu([path, path], "xpos")] == [["P", "D", "M"], ["N"]] * 2
    assert read_conllu([path], "deprel")[0].tags == ["case", "det", "obj"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([row(1, "a", "X"), row(3, "b", "X")], "line 2: the word is numbered '3'; 2 comes next"),
        ([row(1, "a", "X"), "2\tb\tX"], "line 2: 3 columns between tabs; CoNLL-U has 10"),
        ([row(1, "a", "_")], "line 1: the word has no tag in the column upos; choose another one: column=xpos or"),
        ([row(1, " ", "X")], "line 1: the word is empty"),
        (["# only a comment", ""], "there are no sentences in"),
        ([row("2-1-3", "a", "X")], "numbered '2-1-3'"),
    ],
)
def test_a_bad_line_is_reported_with_file_and_line(tmp_path, lines, told):
    path = tmp_path / "bad.conllu"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="bad.conllu") as error:
        read_conllu([path])
    assert told in str(error.value)


def beginning(name, path, sentences):
    """The first sentences of a treebank as a file of its own, and how many words its lines number."""
    lines, words = [], 0
    for line in iterate_lines(SHARED / "data/ud" / name):
        lines.append(line)
        words += line.split("\t")[0].isdigit()
        if (sentences := sentences - (not line)) == 0:
            break
    path.write_text("\n".join(lines), encoding="utf-8")
    return words


@needs_shared
def test_real_treebanks(tmp_path):
    """The first sentences of two treebanks: all words that are numbered, ranges (`don't`, `du`) left out."""
    path = tmp_path / "a.conllu"
    words = beginning("en_ewt-ud-dev.conllu", path, 120)
    english = read_conllu([path])
    assert len(english) == 120 and sum(len(one.words) for one in english) == words > 2000
    assert english[0].words == ["From", "the", "AP", "comes", "this", "story", ":"]
    assert english[0].tags == ["ADP", "DET", "PROPN", "VERB", "DET", "NOUN", "PUNCT"]
    words = beginning("fr_pud-ud-test.conllu", path, 20)
    french = read_conllu([path])
    assert len(french) == 20 and sum(len(one.words) for one in french) == words
    with pytest.raises(DataError, match="no tag in the column xpos"):
        read_conllu([path], "xpos")


def test_settings_of_a_treebank():
    assert TaggingData(treebank="a.conllu").treebank == TaggingData(treebank=["a.conllu"]).treebank
    with pytest.raises(ValidationError, match="leave nothing to train on"):
        TaggingData(validation_share=0.6, test_share=0.4)


def test_what_a_word_looks_like():
    assert list(features("Dogs", 2)) == ["=dogs", "<d", ">s", "<do", ">gs", "~Xx"]
    assert list(features("a", 4)) == ["=a", "<a", ">a", "~x"]  # no beginning longer than the word
    shapes = {"McDonald's": "XxXx'x", "1990s": "dx", "U.S.": "X.X.", "犬が": "o", "e\u0301": "x", "😀": "😀", "-": "-"}
    assert {word: shape(word) for word in shapes} == shapes


def test_a_vocabulary_of_features_knows_what_is_frequent(tmp_path):
    words = WordFeatures.train(["dog", "dog", "fog", "Dot"], least=2, affix=2)
    # By count, then by text: seen 4, 3, 3, 3, 2 times; "=fog" and the rest but once.
    assert words.entries == ["<d", "<do", ">g", ">og", "~x", "=dog"]
    assert words.ids("dog") == [9, 4, 6, 5, 7, 8]
    assert words.ids("Frog") == [UNKNOWN, 6, 7] and words.ids("犬") == [UNKNOWN]
    words.save(tmp_path)
    again = WordFeatures.load(tmp_path)
    assert again.ids("dog") == words.ids("dog") and len(again) == len(words) == 10
    (tmp_path / "words.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        WordFeatures.load(tmp_path)


def test_batches_of_tagged_words_hold_each_sentence_once():
    sentences = [[[7, 5]] * 3, [[8]], [[9, 4, 2]] * 2]
    batches = TaggedBatches(sentences, [[1, 2, 1], [0], [2, 2]], tokens=4, seed=1)
    for epoch in (0, 1):
        assert Counter(at for batch in batches.plan(epoch) for at in batch) == {0: 1, 1: 1, 2: 1}
        assert all(batches.load(batch).tags.numel() <= 4 for batch in batches.plan(epoch))
    batch = batches.load([0, 1])
    assert batch.ids.tolist() == [[[7, 5]] * 3, [[8, 0], [0, 0], [0, 0]]]
    assert batch.tags.tolist() == [[1, 2, 1], [0, UNTAGGED, UNTAGGED]] and batch.lengths.tolist() == [3, 1]
    assert len(batch) == 2 and batch.to(torch.device("cpu")).index.tolist() == [0, 1]
    with pytest.raises(DataError, match="no sentences"):
        TaggedBatches([], [], 4)
