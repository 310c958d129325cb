"""Associative recall (Graves, Wayne & Danihelka 2014, section 4.3)."""

import numpy as np

from regard.data.algorithms.problem import SequenceItem, draw_bits, read_rows, write_row
from regard.data.algorithms.settings import RecallSettings
from regard.data.chance import Chance
from regard.errors import ConfigError, DataError


class Recall:
    """Items of a few rows, one of them once more, and then the item that had followed it.

    Inputs: the bits, a mark before each item, and a mark before and after the question. No item is twice in a sequence.
    """

    def __init__(self, settings: RecallSettings) -> None:
        self.bits, self.item_rows = settings.bits, settings.rows
        self.inputs, self.outputs = self.bits + 2, self.bits
        self.form = (
            f"items with | between, then ? and one of them but the last; an item is {self.item_rows} rows of "
            f"{self.bits} bits with spaces between"
        )

    def draw(self, chance: Chance, length: int) -> SequenceItem:
        """Random items, all different, and one of them but the last to ask for; `length` counts items.

        Raises:
            ConfigError: fewer than 2 items, or more than there are different ones.
        """
        if not 2 <= length <= 2 ** (self.item_rows * self.bits):
            raise ConfigError(
                f"{length} items are asked for; a recall has at least 2, and at most the "
                f"{2 ** (self.item_rows * self.bits)} that {self.item_rows} rows of {self.bits} bits can distinguish"
            )
        items: dict[bytes, np.ndarray] = {}
        while len(items) < length:
            drawn = draw_bits(chance, self.item_rows, self.bits)
            items.setdefault(drawn.tobytes(), drawn)
        return self._item(list(items.values()), chance.below(length - 1))

    def read(self, text: str) -> SequenceItem:
        """The items and the one asked for that a person wrote.

        Raises:
            DataError: there is no question, an item has other rows, or the one asked for is not exactly once before
                the last.
        """
        given, mark, asked = text.partition("?")
        if not mark:
            raise DataError(f"there is no question; expected {self.form}")
        items = [self._read_item(part, f"item {number}") for number, part in enumerate(given.split("|"), 1)]
        wanted = self._read_item(asked, "the item asked for")
        places = [place for place, item in enumerate(items[:-1]) if np.array_equal(item, wanted)]
        if not places:
            raise DataError("the item asked for is none of those before the last; there is no item that followed it")
        if len(places) > 1 or np.array_equal(items[-1], wanted):
            raise DataError("the item asked for stands there more than once; it must be one item alone")
        return self._item(items, places[0])

    def write(self, bits: np.ndarray) -> str:
        """An answer's bits, `(rows, bits)`, as words of 0 and 1."""
        return " ".join(map(write_row, bits))

    def rows(self, item: SequenceItem) -> list[str]:
        """A label for each row of the input: | and ? for the marks, else its bits."""
        marks = {(1, 0): "|", (0, 1): "?", (0, 0): ""}
        return [
            marks[int(row[self.bits]), int(row[self.bits + 1])] or write_row(row[: self.bits]) for row in item.question
        ]

    def sources(self, item: SequenceItem) -> list[int | None]:
        """The input rows of the item that followed the one asked for.

        Raises:
            DataError: the item asked for is none of those given.
        """
        start = len(item.question) - self.item_rows - 2  # the mark before what is asked for
        asked = item.question[start + 1 : -1]
        for mark in range(0, start, self.item_rows + 1):
            if np.array_equal(item.question[mark + 1 : mark + 1 + self.item_rows], asked):
                following = mark + self.item_rows + 2
                return list(range(following, following + self.item_rows))
        raise DataError("the item asked for is none of those given")

    def _read_item(self, text: str, what: str) -> np.ndarray:
        words = text.split()
        if len(words) != self.item_rows:
            raise DataError(f"{what} has {len(words)} rows; expected {self.item_rows}")
        try:
            return read_rows(words, self.bits)
        except DataError as error:
            raise DataError(f"{what}: {error}") from error

    def _item(self, items: list[np.ndarray], asked: int) -> SequenceItem:
        rows: list[np.ndarray] = []
        for item in items:
            rows += [self._mark(0), *item]
        rows += [self._mark(1), *items[asked], self._mark(1)]
        question = np.zeros((len(rows), self.inputs), np.float32)
        for number, row in enumerate(rows):
            question[number, : len(row)] = row
        return SequenceItem(question, items[asked + 1], len(items))

    def _mark(self, which: int) -> np.ndarray:
        row = np.zeros(self.inputs, np.float32)
        row[self.bits + which] = 1
        return row
