from collections import Counter

import pytest

from regard.data.pairs.parallel_text import Pair
from regard.data.synthetic.settings import PhraseSettings
from regard.data.translation.corpus import read_corpus, read_training
from regard.data.translation.joining import join_pairs
from regard.data.translation.settings import CorpusSettings, DataSettings
from regard.errors import DataError


def numbered(count):
    return [
        Pair(f"s{at} x", f"t{at}", "file", at + 1, frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)}))
        for at in range(count)
    ]


def parts(pair):
    sources = [word for word in pair.source.split() if word != "x"]
    assert [word[1:] for word in sources] == [word[1:] for word in pair.target.split()]
    return [int(word[1:]) for word in sources]


def test_ones_twos_and_threes_are_equally_often_and_whole():
    pairs = numbered(31)
    joined = join_pairs(pairs, 3, seed=7)
    members = [parts(pair) for pair in joined]
    assert sorted(Counter(map(len, members)).values()) == [10, 10, 11]
    assert [part[0] for part in members] == list(range(31))  # each begins with its own, in the order of the file
    assert all(len(set(part)) == len(part) for part in members)
    assert sum(part[1:] == [part[0] + 1] for part in members) < 5  # partners are not the neighbours
    assert joined == join_pairs(pairs, 3, seed=7) != join_pairs(pairs, 3, seed=8)
    assert join_pairs(pairs, 1) == pairs


def test_links_shift_along():
    three = next(pair for pair in join_pairs(numbered(7), 3) if len(pair.target.split()) == 3)
    assert three.links == {(0, 0), (2, 1), (4, 2)}
    assert three.possible == three.links | {(1, 0), (3, 1), (5, 2)}
    unknown = [Pair("a", "b", "f", 1), Pair("c d", "e", "f", 2, frozenset({(1, 0)}))]
    assert [pair.links for pair in join_pairs(unknown, 2) if pair not in unknown] == [None]


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (("你好。", "再见。"), "你好。再见。"),
        (("カタ", "カナ"), "カタ カナ"),  # without a space it would be one word
        (("Hi.", "再见。"), "Hi.再见。"),
        ((" a ", "b\u2009"), "a b"),
    ],
)
def test_a_space_where_the_script_sets_one(texts, joined):
    pairs = [Pair(text, text, "f", line) for line, text in enumerate(texts, 1)]
    firsts = [join_pairs(pairs, 2, seed)[0] for seed in range(9)]
    assert {pair.source for pair in firsts} == {texts[0], joined}
    assert {pair.target for pair in firsts} == {texts[0], joined}


def test_b29_an_empty_side_joins_nothing():
    pairs = [Pair("a", "", "f", 1), *numbered(5), Pair(" ", "b", "f", 7)]
    joined = join_pairs(pairs, 3)
    assert (joined[0], joined[-1]) == (pairs[0], pairs[-1])
    assert all(len(parts(pair)) <= 3 for pair in joined[1:-1])
    with pytest.raises(DataError, match="5 pairs with words on both sides are too few to join up to 6 in one"):
        join_pairs(pairs, 6)


def test_joining_by_the_settings_keeps_held_out_pairs_apart(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("".join(f"t{line}\ts{line}\n" for line in range(60)))
    settings = DataSettings(tsv=path, columns=(2, 1), joined=3, held_out=11)
    training, held_out = read_training(settings, seed=2)
    assert (len(training), len(held_out)) == (49, 11)
    words, others = ({word for pair in pairs for word in pair.source.split()} for pairs in (training, held_out))
    assert not words & others
    assert all(word.startswith("s") for word in words | others)
    # The test and validation data are the same for all seeds of a run, the training data are not.
    validated = DataSettings(tsv=path, joined=2, validation=CorpusSettings(tsv=path, joined=3))
    one, other = (read_training(validated, seed=seed) for seed in (1, 2))
    assert one[1] == other[1] == read_corpus(CorpusSettings(tsv=path, joined=3))
    assert one[0] != other[0]
    made = read_corpus(CorpusSettings(phrases=PhraseSettings(count=4), joined=2))
    assert all(pair.links for pair in made)


def test_long_pairs_are_left_out_before_the_others_are_held_out(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("Je t'aime.\tI love you.\nOui.\tYes, I really do.\nNon.\tNo.\n你好吗？\tHi?\n")
    assert [pair.line for pair in read_corpus(CorpusSettings(tsv=path, most_words=5))] == [1, 3, 4]  # je t ' aime .
    assert [pair.line for pair in read_corpus(CorpusSettings(tsv=path, most_words=4))] == [3, 4]
    training, held_out = read_training(DataSettings(tsv=path, most_words=4, held_out=1))
    assert sorted(pair.line for pair in training + held_out) == [3, 4]
