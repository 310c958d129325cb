import io
import os
import subprocess
import sys

import pytest
from hypothesis import example, given, settings, strategies as st

from regard.data.text.lines import read_lines
from regard.data.text.units import units
from regard.data.tokenizers.base import visible
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
from regard.errors import ConfigError, DataError, RunError
from regard.vocabulary import BEGIN, END, PADDING, UNKNOWN
from tests.shared import SHARED, needs_shared

KINDS = ("words", "characters", "bpe")
HARD = [
    "He said \"don't\" (twice), didn't he? It's 7:30, on March 5, 2021; it cost $1,234.50 — or 12 € (5%).",
    "« Bonjour », dit-il : l'heure, c'est 19 h 30 !",
    "2021年3月5日晚上7点30分，他说：“你好！”（两次）",
    "I love 你 and 👩‍🚀 🇫🇷 é ｅ ﬁ 1️⃣ too",
    "a  b\tc\u00a0d _x_ a/b a - b x@y.org #tag 3.14 'quoted' ''",
    "</s> <unk> <s> <pad> ▁ ▁x \u2060 \u2060x \u2060\u2060",
    "ひらがなカタカナ 한국어 문장 हिन्दी \u200d ab\u200ccd",
]
text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=29) | st.text(
    "ab 你,.\"'-<>▁\u2060 \t1$(", max_size=29
)


def expected(tokenizer, line):
    line = tokenizer.normalize(line)
    return " ".join(line.split()) if tokenizer.kind == "words" else line


@pytest.fixture(scope="module", params=KINDS)
def trained(request):
    return train_tokenizer(request.param, HARD, 100_000)


def test_texts_come_back(trained):
    for line in HARD:
        encoded = trained.encode(line)
        assert UNKNOWN not in encoded.ids
        assert trained.decode(encoded.ids) == expected(trained, line)


@settings(max_examples=40, deadline=None)
@given(line=text)
@example(line="a\x1cb")
@example(line="\u2060\u2060a")
@example(line='" "" a')
def test_any_text_comes_back(line):
    for kind in KINDS:
        tokenizer = train_tokenizer(kind, [line], 100_000)
        encoded = tokenizer.encode(line)
        assert tokenizer.decode(encoded.ids) == expected(tokenizer, line)
        assert len(encoded.ids) == len(encoded.tokens) == len(encoded.words)
        assert all(number >= 4 for number in encoded.ids)
        # Every word has a token, in order.
        assert sorted(set(encoded.words)) == list(range(len(tokenizer.words(line))))
        assert encoded.words == sorted(encoded.words)
        if kind != "words":
            assert "".join(encoded.tokens).strip() == tokenizer.normalize(line)


@settings(max_examples=40, deadline=None)
@given(line=text)
def test_unknown_text_keeps_its_spelling(trained, line):
    encoded = trained.encode(line)
    missing = [token for number, token in zip(encoded.ids, encoded.tokens, strict=True) if number == UNKNOWN]
    # Spelling the unknown ids out gives the text again, spaces aside.
    spelt = trained.decode(encoded.ids, unknown=missing)
    assert "".join(spelt.split()) == "".join(trained.normalize(line).split())


def test_words_of_pieces():
    bpe = train_tokenizer("bpe", ["low lower lowest"] * 3, 13)
    encoded = bpe.encode("lowest, low")
    assert "".join(encoded.tokens) == " lowest, low"
    assert bpe.words("lowest, low") == ["lowest", ",", "low"]
    assert [sum(word == index for word in encoded.words) for index in range(3)] == [
        len(bpe.encode("lowest").ids),
        1,
        len(bpe.encode("low").ids),
    ]
    characters = train_tokenizer("characters", ["ab cd"], 29)
    assert characters.encode("ab cd").words == [0, 0, 1, 1, 1]
    assert characters.encode("ab cd").tokens == ["a", "b", " ", "c", "d"]


def test_each_han_character_is_a_word():
    assert [unit.text for unit in units("2021年3月5日, x你好y")] == [
        "2021",
        "年",
        "3",
        "月",
        "5",
        "日",
        ",",
        "x",
        "你",
        "好",
        "y",
    ]


def test_special_marks_in_a_text_are_plain_characters(trained):
    for typed in ("</s>", "<unk>", "<s>", "<pad>"):
        encoded = trained.encode(typed)
        assert not {PADDING, UNKNOWN, BEGIN, END} & set(encoded.ids)
        assert trained.decode(encoded.ids) == typed


def test_decoded_text_shows_no_special_id(trained):
    ids = [BEGIN, *trained.encode("a").ids, UNKNOWN, END, PADDING]
    assert trained.decode(ids) == "a"
    assert trained.tokens([PADDING, UNKNOWN, BEGIN, END]) == ["<pad>", "<unk>", "<s>", "</s>"]
    with pytest.raises(DataError, match=rf"id {len(trained)} is not in"):
        trained.decode([len(trained)])


@pytest.mark.parametrize("blank", ["", " ", "\t\u3000", "\x1c"])
def test_b29_blank_text_has_no_ids(trained, blank):
    encoded = trained.encode(blank)
    assert (encoded.ids, encoded.tokens, encoded.words) == ([], [], [])
    assert trained.words(blank) == []
    assert trained.decode([]) == ""


def test_b30_unknown_words_keep_the_spelling_typed():
    words = train_tokenizer("words", ["runs"], 29)
    encoded = words.encode("Zork runs")
    assert encoded.ids == [UNKNOWN, 4]
    assert encoded.tokens == ["Zork", "runs"]
    assert words.decode([4, UNKNOWN, END], unknown=["Zork"]) == "runs Zork"


def test_nfc_makes_one_spelling():
    for kind in KINDS:
        tokenizer = train_tokenizer(kind, ["café"], 100)
        assert tokenizer.encode("cafe\u0301").ids == tokenizer.encode("café").ids
        assert tokenizer.decode(tokenizer.encode("cafe\u0301").ids) == "café"


def test_lower_case_is_folded_but_words_keep_it():
    for kind in KINDS:
        tokenizer = train_tokenizer(kind, ["Straße ÉTÉ"], 100, lower=True)
        assert tokenizer.decode(tokenizer.encode("STRAßE été").ids) == "straße été"
        assert tokenizer.words("Straße ÉTÉ") == ["Straße", "ÉTÉ"]


def test_b37_order_is_by_count_then_text():
    words = train_tokenizer("words", ["b a c a b c"], 6)
    assert words.tokens(range(4, 6)) == ["a", "b"]
    assert len(words) == 6
    assert words.encode("c").ids == [UNKNOWN]
    assert train_tokenizer("words", ["b a c a b c b"], 29).tokens(range(4, 7)) == ["b", "a", "c"]
    assert train_tokenizer("characters", ["cab"], 6).tokens(range(4, 6)) == ["a", "b"]


def test_b37_bpe_merges_by_count_then_text():
    # Known by hand: "ab" comes 5 times, "ac" 3 times; then " ab" 5, and so on.
    bpe = train_tokenizer("bpe", ["ab ab ab ab ab ac ac ac"], 10)
    assert bpe.tokens(range(4, 8)) == [" ", "a", "b", "c"]
    assert bpe.tokens(range(8, 10)) == [" a", " ab"]
    # Fewer places than characters: the most frequent, ties by text.
    assert train_tokenizer("bpe", ["xyzw xyzw"], 7).tokens(range(4, 7)) == [" ", "w", "x"]


def test_b37_same_bytes_for_any_hash_seed_and_order_of_lines(tmp_path):
    code = """
import random, sys
from regard.data.synthetic.phrases import phrases
from regard.data.tokenizers.factory import train_tokenizer
lines = [text for pair in phrases(151, 0, 'fr', 'zh') for text in (pair.source, pair.target)]
random.Random(int(sys.argv[1])).shuffle(lines)
for kind, size in (('words', 101), ('characters', 47), ('bpe', 211), ('bpe', 37)):
    print(train_tokenizer(kind, lines, size).fingerprint())
"""
    outputs = set()
    for seed in "01234":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, seed]
        outputs.add(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)
    assert len(outputs) == 1


def test_saved_and_loaded_is_the_same(trained, tmp_path):
    first = trained.save(tmp_path / "one").read_bytes()
    again = load_tokenizer(tmp_path / "one")
    assert again.save(tmp_path / "two").read_bytes() == first
    assert again.fingerprint() == trained.fingerprint()
    assert type(again) is type(trained)
    for line in HARD:
        assert again.encode(line) == trained.encode(line)
    other = train_tokenizer(trained.kind, ["z" + HARD[0]], 100_000)
    assert other.fingerprint() != trained.fingerprint()


def test_a_damaged_file_is_an_error_not_a_traceback(tmp_path):
    with pytest.raises(RunError, match=r"holds no tokenizer.*tokenizer\.json is missing"):
        load_tokenizer(tmp_path)
    for content in ("{", "[]", "{}", '{"kind": "words"}', '{"kind": "spaces", "lower": false}'):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(RunError, match="damaged"):
            load_tokenizer(tmp_path)


def test_wrong_requests_are_named():
    with pytest.raises(ConfigError, match="Did you mean 'words'"):
        train_tokenizer("word", ["a"], 29)
    with pytest.raises(ConfigError, match="a vocabulary of 4 has no room"):
        train_tokenizer("words", ["a"], 4)
    with pytest.raises(ConfigError, match="given, not trained"):
        train_tokenizer("sentencepiece", ["a"], 29)
    with pytest.raises(DataError, match="half of a surrogate pair"):
        train_tokenizer("words", ["a"], 29).encode("\ud800")


def test_spaces_are_made_visible():
    assert visible(" low") == "▁low"


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    trainer = pytest.importorskip("sentencepiece").SentencePieceTrainer
    model = io.BytesIO()
    lines = ["hello world", "good day hello", "你好 世界", "hello 你好"] * 29
    trainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=23, hard_vocab_limit=False, minloglevel=2
    )
    path = tmp_path_factory.mktemp("sp") / "small.model"
    path.write_bytes(model.getvalue())
    return path


def test_a_sentencepiece_model_is_taken_as_it_is(model_file, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    from regard.data.tokenizers.sentencepiece import SentencePieceTokenizer

    tokenizer = SentencePieceTokenizer.from_file(model_file)
    peer = sentencepiece.SentencePieceProcessor(model_file=str(model_file))
    for line in ("hello world", "good 你好", "hello"):
        encoded = tokenizer.encode(line)
        assert [number - 4 for number in encoded.ids] == peer.encode(line)
        assert tokenizer.decode(encoded.ids) == line
    assert tokenizer.encode("hello world").words[-1] == 1
    encoded = tokenizer.encode("hello Ω")
    assert encoded.ids[-1] == UNKNOWN
    assert encoded.tokens[-1] == "Ω"
    assert tokenizer.decode(encoded.ids, unknown=["Ω"]) == "hello Ω"
    assert tokenizer.decode([BEGIN, *encoded.ids, END]).strip() == "hello"
    # Typed marks stay text; the model's own control ids (its 1 and 2) show nothing.
    assert not {BEGIN, END, 4 + 1, 4 + 2} & set(tokenizer.encode("</s>").ids)
    assert tokenizer.decode([4 + 1, *tokenizer.encode("hello").ids, 4 + 2]) == "hello"
    assert tokenizer.encode("").ids == []
    tokenizer.save(tmp_path)
    assert load_tokenizer(tmp_path).fingerprint() == tokenizer.fingerprint()


def test_no_model_and_no_package_are_named(model_file, tmp_path, monkeypatch):
    from regard.data.tokenizers.sentencepiece import SentencePieceTokenizer

    with pytest.raises(DataError, match=r"none\.model cannot be read"):
        SentencePieceTokenizer.from_file(tmp_path / "none.model")
    (tmp_path / "bad.model").write_bytes(b"no model")
    with pytest.raises(DataError, match=r"bad\.model: this is no SentencePiece model"):
        SentencePieceTokenizer.from_file(tmp_path / "bad.model")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ConfigError, match=r"pip install 'regard\[sentencepiece\]'"):
        SentencePieceTokenizer.from_file(model_file)


@needs_shared
@pytest.mark.parametrize("kind", KINDS)
def test_real_text_comes_back(kind):
    lines = [
        *read_lines(SHARED / "data" / "multi30k" / "train.de.gz")[:200],
        *read_lines(SHARED / "data" / "multi30k" / "train.fr.gz")[:200],
        *(line.split("\t")[1] for line in read_lines(SHARED / "data" / "tatoeba" / "cmn.txt")[::110]),
    ]
    tokenizer = train_tokenizer(kind, lines, 20_000 if kind != "bpe" else 4_000)
    for line in lines:
        assert tokenizer.decode(tokenizer.encode(line).ids) == expected(tokenizer, line)
