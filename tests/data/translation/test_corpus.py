import pytest

from regard.data.pairs.parallel_text import Pair
from regard.data.synthetic.settings import PhraseSettings
from regard.data.tokenizers.factory import train_tokenizer
from regard.data.translation.corpus import encode_pairs, make_tokenizers, read_corpus, read_training
from regard.data.translation.settings import CorpusSettings, DataSettings
from regard.errors import ConfigError, DataError

WORDS = train_tokenizer("words", ["a b c"], 29)


def pairs(*texts):
    return [Pair(source, target, "file", line) for line, (source, target) in enumerate(texts, 1)]


def encode(texts, **options):
    return encode_pairs(pairs(*texts), WORDS, WORDS, **{"max_length": 5, "on_long": "drop", **options})


def test_b29_pairs_with_an_empty_side_are_left_out_together():
    kept = encode([("a", "b"), ("", "b"), ("a", ""), (" \t", "\u00a0"), ("b", "c")])
    assert [pair.line for pair in kept.pairs] == [1, 5]
    assert kept.sources == [[4], [5]]
    assert kept.targets == [[5], [6]]
    assert kept.report() == "2 pairs kept, 3 with an empty side left out (first: file, line 2)"


def test_b32_limits_count_the_end_mark_and_hit_both_sides():
    texts = [("a " * length, "b") for length in (3, 4, 5)] + [("b", "a " * 5)]
    kept = encode(texts)
    assert [pair.line for pair in kept.pairs] == [1, 2]  # 4 words and the end mark are 5
    assert kept.report() == "2 pairs kept, 2 too long left out (first: file, line 3)"
    kept = encode(texts, on_long="cut")
    assert [len(ids) for ids in kept.sources] == [3, 4, 4, 1]
    assert [len(ids) for ids in kept.targets] == [1, 1, 1, 4]
    assert kept.cut == ["file, line 3", "file, line 4"]
    with pytest.raises(DataError, match=r"file, line 3: 6 tokens with EOS, at most 5 fit \(max_length\)"):
        encode(texts, on_long="error")


def test_nothing_left_to_train_on_says_why():
    with pytest.raises(DataError, match="no pair is left.*1 with an empty side.*1 too long.*of 2 read"):
        encode([("", "a"), ("a " * 9, "b")])


def test_b32_a_word_of_100_000_characters():
    characters = train_tokenizer("characters", ["abc"], 29)
    long = pairs(("a" * 100_000, "b"))
    assert len(encode_pairs(long, characters, WORDS, max_length=1000, on_long="cut").sources[0]) == 999
    assert len(WORDS.encode("a" * 100_000).ids) == 1


def test_pairs_are_held_out_with_all_their_copies(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("".join(f"s{line % 40}\tt{line % 40}\n" for line in range(80)))
    settings = DataSettings(tsv=path, held_out=7)
    training, held_out = read_training(settings, seed=5)
    assert (len(training), len(held_out)) == (66, 7)
    assert not {pair.source for pair in training} & {pair.source for pair in held_out}
    assert read_training(settings, seed=5) == (training, held_out)
    assert read_training(settings, seed=6)[1] != held_out
    assert len(read_training(DataSettings(tsv=path))[1]) == 4  # a twentieth
    with pytest.raises(DataError, match="80 pairs, .* are too few to hold 40 out"):
        read_training(DataSettings(tsv=path, held_out=40))


def test_each_origin_is_read(tmp_path):
    (tmp_path / "s").write_text("a\n")
    (tmp_path / "t").write_text("b\n")
    (tmp_path / "j").write_text('{"source": "a", "target": "b"}\n')
    (tmp_path / "v").write_text("a\tb\n")
    for settings in (
        CorpusSettings(source=tmp_path / "s", target=tmp_path / "t"),
        CorpusSettings(tsv=tmp_path / "v"),
        CorpusSettings(jsonl=tmp_path / "j"),
    ):
        assert [(pair.source, pair.target) for pair in read_corpus(settings)] == [("a", "b")]
    made = read_corpus(CorpusSettings(phrases=PhraseSettings(count=7, target="es")))
    assert len(made) == 7
    with pytest.raises(ConfigError, match="no data is named"):
        read_corpus(CorpusSettings())


def test_shared_and_separate_vocabularies():
    some = pairs(("a b", "x"), ("b", "y"))
    one, other = make_tokenizers(DataSettings(tokenizer="words"), some)
    assert (len(one), len(other)) == (6, 6)
    one, other = make_tokenizers(DataSettings(tokenizer="words", shared_vocabulary=True), some)
    assert one is other
    assert len(one) == 8
