"""Translations as text, words and links, from ids and weights set by hand."""

import pytest
import torch

from regard.data.tokenizers.factory import train_tokenizer
from regard.decoding.outputs import Hypothesis
from regard.errors import RegardError
from regard.tasks.translation.alignment_view import Alignment, alignment_view
from regard.tasks.translation.data import language_of
from regard.tasks.translation.outputs import output_of
from regard.vocabulary import UNKNOWN


def hypothesis(ids, rows):
    return Hypothesis(ids, -1.5, -3.0, True, torch.tensor(rows))


@pytest.fixture(scope="module")
def words():
    return train_tokenizer("words", ["le chat dort", "le chien dort"], 50)


@pytest.mark.parametrize(
    ("weights", "copied"), [((0.1, 0.2, 0.7), "runs"), ((0.25, 0.05, 0.7), "Zork"), ((0.15, 0.15, 0.7), "Zork")]
)
def test_an_unknown_word_is_the_source_word_attended_to_most(words, weights, copied):
    """B30: Zork is unknown, the end mark has the highest weight: copy a real word, as typed; of equals the first."""
    [chat] = words.encode("chat").ids
    output = output_of(
        hypothesis([UNKNOWN, chat], [weights, (0.2, 0.7, 0.1), (0, 0, 1)]), words, ["Zork", "runs"], [0, 1]
    )
    assert output.text == f"{copied} chat" and output.words == [copied, "chat"]
    assert output.tokens == ["<unk>", "chat", "</s>"] and output.word_of == [0, 1]


def test_an_unknown_word_without_an_alignment_shows_nothing(words):
    ids = [UNKNOWN, *words.encode("chat").ids]
    output = output_of(Hypothesis(ids, 0.0, 0.0, False, None), words, ["Zork", "runs"], [0, 1])
    assert output.text == "chat" and output.tokens == ["<unk>", "chat"] and output.alignment is None


def test_links_are_between_words_and_leave_the_end_marks_out():
    """Two source pieces of one word are summed: 0.3 + 0.3 beats 0.35; two target pieces are averaged."""
    shown = Alignment(
        source="ab c", target="x yz", source_tokens=["a", "b", "c", "</s>"], target_tokens=["x", "y", "z", "</s>"],
        source_words=["ab", "c"], target_words=["x", "yz"], source_word_of=[0, 0, 1], target_word_of=[0, 1, 1],
        weights=torch.tensor([[0.3, 0.3, 0.35, 0.05], [0, 0.1, 0.6, 0.3], [0, 0.5, 0.4, 0.1], [0, 0, 0, 1]]),
    )  # fmt: skip
    torch.testing.assert_close(shown.between_words(), torch.tensor([[0.6, 0.35], [0.3, 0.5]]))
    assert shown.links() == {(0, 0), (1, 1)}
    assert shown.matrix("words").rows == ("x", "yz") and shown.matrix("pieces").columns == ("a", "b", "c", "</s>")
    view = alignment_view([shown.matrix()], language="zh")
    assert view.kind == "alignment" and view.language == "zh"


def test_words_that_were_cut_off_have_no_weight():
    shown = Alignment(
        "a b c", "x", ["a", "</s>"], ["x"], ["a", "b", "c"], ["x"], [0], [0], torch.tensor([[0.75, 0.25]])
    )
    torch.testing.assert_close(shown.between_words(), torch.tensor([[0.75, 0.0, 0.0]]))


def test_no_attention_is_said_and_gives_no_links():
    shown = Alignment("a", "x", ["a", "</s>"], ["x"], ["a"], ["x"], [0], [0], None)
    assert shown.links() == frozenset()
    with pytest.raises(RegardError, match="has no attention"):
        shown.matrix()


def test_tokens_find_their_words_also_where_the_text_reads_differently():
    """A text of two pieces that would be read again as one: each still belongs to the one word."""
    tokenizer = train_tokenizer("bpe", ["abab abab ab", "ab abab"], 40)
    whole = tokenizer.encode("ab").ids
    text = tokenizer.decode([*whole, *tokenizer.encode("ab").ids])
    doubled = output_of(Hypothesis([*whole, *whole], 0.0, 0.0, False, None), tokenizer, [], [])
    assert doubled.text == text and max(doubled.word_of) == len(doubled.words) - 1
    letters = train_tokenizer("characters", ["ab cd"], 20)
    spelt = output_of(Hypothesis(letters.encode("ab cd").ids, 0.0, 0.0, False, None), letters, [], [])
    assert spelt.words == ["ab", "cd"] and [spelt.word_of[at] for at in (0, 1, 3, 4)] == [0, 0, 1, 1]


def test_the_language_of_a_text_decides_how_bleu_counts():
    assert language_of(["在 3 月", "大约 5 天"]) == "zh"
    assert language_of(["le 3 mars", "中"]) is None and language_of([]) is None and language_of(["3 : 4"]) is None
