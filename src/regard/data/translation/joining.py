"""Longer sentences out of short ones: pairs joined by ones, twos, threes … with their links."""

from collections.abc import Sequence
from dataclasses import replace

from regard.data.chance import Chance
from regard.data.pairs.parallel_text import Links, Pair
from regard.data.settings import WordUnit
from regard.data.text.units import is_unspaced, normalize, split_words
from regard.errors import DataError


def join_pairs(pairs: Sequence[Pair], most: int, seed: int = 0) -> list[Pair]:
    """As many pairs as before; each begins with its own and continues with none to `most` - 1 others.

    Ones, twos, … up to `most` occur equally often (their counts differ by one at most). Who is joined with whom is
    drawn by the seed and does not follow the file: neighbours in a file may say nearly the same (a list sorted by
    length has all translations of a sentence in a row), and one part could then be translated by copying another.

    A pair with an empty side stays as it is and is joined to nothing, or its partners' translations would not be whole.

    Args:
        pairs: any pairs.
        most: joined in one at most; 1 changes nothing.
        seed: draws; one seed gives the same on every machine.

    Returns:
        Pairs in the order of the given ones, with the place of the one they begin with. Links shift along; they are
        known where those of all parts are.

    Raises:
        DataError: there are fewer pairs than are to be joined in one.
    """
    if most == 1:
        return list(pairs)
    usable = [place for place, pair in enumerate(pairs) if pair.source.strip() and pair.target.strip()]
    if len(usable) < most:
        raise DataError(f"{len(usable)} pairs with words on both sides are too few to join up to {most} in one")
    order = Chance("joined", seed).shuffled(usable)
    joined = list(pairs)
    for turn, place in enumerate(order):
        for step in range(1, 1 + turn % most):
            # The circle of all pairs: each is the first of one, the second of another, and so on.
            joined[place] = _joined(joined[place], pairs[order[(turn + step) % len(order)]])
    return joined


def _joined(one: Pair, other: Pair) -> Pair:
    links = possible = None
    if one.links is not None and other.links is not None:
        words = [len(split_words(text, one.counted)) for text in (one.source, one.target)]
        links = one.links | _shifted(other.links, *words)
        possible = (one.possible or one.links) | _shifted(other.possible or other.links, *words)
    return replace(
        one,
        source=_text(one.source, other.source, one.counted),
        target=_text(one.target, other.target, one.counted),
        links=links,
        possible=possible,
    )


def _text(one: str, other: str, counted: WordUnit) -> str:
    """Both texts, with a space between unless the script sets none and the words stay apart without it."""
    one, other = normalize(one), normalize(other)
    if is_unspaced(other):
        words = [split_words(text, counted) for text in (one, other, one + other)]
        if words[0] + words[1] == words[2]:
            return one + other
    return f"{one} {other}"


def _shifted(links: Links, source: int, target: int) -> Links:
    return frozenset((source + word, target + translation) for word, translation in links)
