"""The problem "reverse the digits": text of which the answer, and what must be attended to for it, are known."""

import functools
from collections.abc import Iterator

from regard.data.chance import Chance
from regard.data.pairs.parallel_text import Links, Pair
from regard.data.settings import Part
from regard.errors import ConfigError

# A sequence belongs to a part by its digit sum, whatever the seed: no seed can put a test sequence into training. The
# last digit is then the only one that is not free, and it says nothing about the order of the others.
_SUMS: dict[Part, tuple[int, ...]] = {"test": (0,), "validation": (1,), "training": (2, 3, 4, 5, 6, 7, 8, 9)}


def available(length: int, part: Part) -> int:
    """How many sequences of that many digits a part has."""
    return len(_SUMS[part]) * 10 ** (length - 1)


def reversal(count: int, seed: int = 0, shortest: int = 1, longest: int = 25, part: Part = "training") -> list[Pair]:
    """Make different sequences of digits with their reversal: "3 1 4" and "4 1 3".

    Lengths are drawn equally often; one of which all sequences are used is drawn no more.

    Args:
        count: how many pairs.
        seed: draws them; one seed gives the same on every machine.
        shortest, longest: number of digits.
        part: training, validation or test, which have no sequence in common for any seeds.

    Returns:
        Pairs whose links join each digit with itself.

    Raises:
        ConfigError: there are not as many different sequences.
    """
    left = {length: available(length, part) for length in range(shortest, longest + 1)}
    if count > sum(left.values()):
        raise ConfigError(
            f"{count} different sequences of {shortest} to {longest} digits are asked for, and the {part} part has "
            f"{sum(left.values())}; ask for fewer or for longer ones"
        )
    return [
        _pair(digits, line) for line, digits in enumerate(_draw(count, Chance("reversal", part, seed), left, part), 1)
    ]


def _draw(count: int, chance: Chance, left: dict[int, int], part: Part) -> Iterator[tuple[int, ...]]:
    seen: set[tuple[int, ...]] = set()
    lengths = [length for length, number in left.items() if number]
    while len(seen) < count:
        length = chance.choose(lengths)
        free = [chance.below(10) for _ in range(length - 1)]
        digits = (*free, (chance.choose(_SUMS[part]) - sum(free)) % 10)
        if digits in seen:
            continue
        seen.add(digits)
        left[length] -= 1
        if not left[length]:
            lengths.remove(length)
        yield digits


def _pair(digits: tuple[int, ...], line: int) -> Pair:
    source, target = (" ".join(map(str, side)) for side in (digits, digits[::-1]))
    links = _mirror(len(digits))
    return Pair(source, target, "digits to reverse", line, links, links)


@functools.cache
def _mirror(length: int) -> Links:
    """The last word belongs to the first, and so on; all sequences of a length share their links."""
    return frozenset((length - 1 - place, place) for place in range(length))
