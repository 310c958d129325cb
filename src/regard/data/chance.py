"""Draws that are the same on every machine and every Python.

Only `random.Random.random()` is promised never to change for a seed; `shuffle` and `choice` are not, so they are made
of it here.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


class Chance:
    """A seeded source of draws; any printable values together make the seed."""

    def __init__(self, *seed: int | str) -> None:
        self._random = random.Random("/".join(map(str, seed))).random

    def __call__(self) -> float:
        """A number from 0 up to 1."""
        return self._random()

    def below(self, count: int) -> int:
        """A whole number from 0 to count - 1."""
        return int(self._random() * count)

    def choose(self, items: Sequence[Item]) -> Item:
        """One of the items, each equally often."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The items in random order; the given sequence stays as it is."""
        keys = [self._random() for _ in items]
        return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]

    def order(self, count: int) -> np.ndarray:
        """The places 0 to count - 1 as `shuffled` would put them, as an array."""
        return np.argsort(np.fromiter((self._random() for _ in range(count)), np.float64, count), kind="stable")
