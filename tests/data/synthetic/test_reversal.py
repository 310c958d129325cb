import pytest

from regard.data.pairs.parallel_text import Pair
from regard.data.synthetic.reversal import available, reversal
from regard.errors import ConfigError


def test_digits_and_their_reversal_with_true_links():
    made = reversal(200, seed=3)
    for pair in made:
        source, target = pair.source.split(), pair.target.split()
        assert target == source[::-1]
        assert pair.links == pair.possible == {(place, len(source) - 1 - place) for place in range(len(source))}
    assert {len(pair.source.split()) for pair in made} >= set(range(2, 26))
    assert len({pair.source for pair in made}) == 200
    assert [pair.line for pair in made[:2]] == [1, 2]


def test_the_same_digits_on_every_machine():
    first, second = reversal(2, seed=0)
    assert first == Pair("5 4 5", "5 4 5", "digits to reverse", 1, *[frozenset({(0, 2), (1, 1), (2, 0)})] * 2)
    assert second.source == "1 5 8 3 3 0 0 1 0 2 9 5 6 5"
    assert reversal(2, seed=0) == [first, second] != reversal(2, seed=1)


def test_no_sequence_is_in_two_parts_whatever_the_seeds():
    whole = {"training": (88, {f"{digit}" for digit in range(2, 10)}), "validation": (11, {"1"}), "test": (11, {"0"})}
    for part, (count, single) in whole.items():
        made = reversal(count, seed=len(part), longest=2, part=part)  # all there are
        assert {pair.source for pair in made if len(pair.source) == 1} == single
        sums = {sum(map(int, pair.source.split())) % 10 for pair in made}
        assert sums == {"test": {0}, "validation": {1}, "training": set(range(2, 10))}[part]
    assert [available(25, part) for part in whole] == [8 * 10**24, 10**24, 10**24]


def test_more_than_there_are_is_an_error():
    with pytest.raises(ConfigError, match="12 different sequences of 1 to 2 digits .* the test part has 11"):
        reversal(12, longest=2, part="test")
