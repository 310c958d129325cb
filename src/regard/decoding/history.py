"""What each step chose and its attention, kept by back-pointers and read backwards when an item leaves."""

from typing import NamedTuple

import numpy as np

from regard.decoding.choose import Continuations


class _Record(NamedTuple):
    slots: dict[int, int]
    parents: np.ndarray
    ids: np.ndarray
    weights: np.ndarray | None


class History:
    """The steps of one search, on the CPU. Beams are never copied: a hypothesis is a path back through its parents.

    A step costs its ids, its parents and the weights of its rows; nothing of it is touched again until it is read.

    Args:
        aligned: whether the decoder attends to a source, so that weights are kept.
    """

    def __init__(self, aligned: bool) -> None:
        self.aligned = aligned
        self._records: list[_Record] = []

    def add(self, slots: dict[int, int], chosen: Continuations, weights: np.ndarray | None) -> None:
        """Keep one step.

        Args:
            slots: where in the batch each item (by its number) stood during this step.
            chosen: what the step chose.
            weights: `(items, old places, source)`: the attention of each continued hypothesis, or None.
        """
        self._records.append(_Record(slots, chosen.parents, chosen.ids, weights))

    def ids(self, item: int, steps: int, place: int) -> list[int]:
        """The tokens of the hypothesis that stands at `place` after that many steps."""
        return [int(record.ids[slot, at]) for record, slot, at in self._back(item, steps, place)][::-1]

    def alignment(self, item: int, steps: int, place: int, columns: int) -> np.ndarray:
        """Its weights `(steps, columns)`, one row per token; `columns` leaves the padding out."""
        rows = np.zeros((steps, columns), dtype=np.float32)
        for row, (record, slot, at) in enumerate(self._back(item, steps, place)):
            assert record.weights is not None
            rows[steps - 1 - row] = record.weights[slot, record.parents[slot, at], :columns]
        return rows

    @property
    def width(self) -> int:
        """The source columns of the weights kept; 0 before the first step."""
        weights = self._records[0].weights if self._records else None
        return 0 if weights is None else weights.shape[-1]

    def _back(self, item: int, steps: int, place: int) -> list[tuple[_Record, int, int]]:
        way = []
        for record in reversed(self._records[:steps]):
            slot = record.slots[item]
            way.append((record, slot, place))
            place = int(record.parents[slot, place])
        return way
