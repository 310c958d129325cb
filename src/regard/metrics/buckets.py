"""A measure for short, middling and long items apart: a mean over all hides how much worse long ones are."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class Bucket(Generic[Value]):
    """Items with `low` ≤ length ≤ `high` (None: no upper end); `value` is None where there are none."""

    low: int
    high: int | None
    count: int
    value: Value | None

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


def by_length(
    lengths: Sequence[int], edges: Sequence[int], measure: Callable[[list[int]], Value]
) -> list[Bucket[Value]]:
    """Measure each length bucket by itself.

    Args:
        lengths: of each item, usually its source's.
        edges: where a new bucket begins, ascending: [1, 8, 11] gives 1–7, 8–10 and 11+. Shorter items get one more
            bucket before them, if there are any.
        measure: takes the numbers of a bucket's items and gives their value, e.g. a corpus BLEU.

    Raises:
        ValueError: the edges do not ascend, or there are none.
    """
    if list(edges) != sorted(set(edges)) or not edges:
        raise ValueError(f"edges must be ascending and different, at least one; given {list(edges)}")
    members: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for item, length in enumerate(lengths):
        members[bisect_right(edges, length)].append(item)
    lows = [min(lengths, default=0), *edges]
    highs = [*(edge - 1 for edge in edges), None]
    return [
        Bucket(low, high, len(items), measure(items) if items else None)
        for place, (low, high, items) in enumerate(zip(lows, highs, members, strict=True))
        if place or items
    ]
