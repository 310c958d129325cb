"""Count and recall: how often did a key come, and which value came with it last? One problem for every memory."""

import numpy as np

from regard.data.algorithms.problem import SequenceItem, read_rows, write_row
from regard.data.algorithms.settings import CountAndRecallSettings
from regard.data.chance import Chance
from regard.errors import ConfigError, DataError


class CountAndRecall:
    """Pairs of a key and a value, then some of the keys with a mark; each is answered at once: its count, its value.

    Inputs: the key, the value, the mark. Outputs: the count as a binary number, the last value. Every key of a stream
    comes 1, 2, … or `most` times, each equally often while there is room.
    """

    def __init__(self, settings: CountAndRecallSettings) -> None:
        self.key_bits, self.value_bits, self.most = settings.key_bits, settings.value_bits, settings.most
        self.questions = settings.questions
        self.count_bits = settings.most.bit_length()
        self.inputs, self.outputs = self.key_bits + self.value_bits + 1, self.count_bits + self.value_bits
        key, value = (f"{'01' * bits:.{bits}}" for bits in (self.key_bits, self.value_bits))
        self.form = f"pairs key:value with spaces between, then ? and some of the keys, as in {key}:{value} … ? {key} …"

    def draw(self, chance: Chance, length: int) -> SequenceItem:
        """Random pairs, each key 1 to `most` times, and the keys to ask for; `length` counts pairs.

        Raises:
            ConfigError: there are not enough different keys for that many pairs.
        """
        counts: dict[int, int] = {}
        room = length
        while room:
            if len(counts) == 2**self.key_bits:
                raise ConfigError(
                    f"{length} pairs are asked for, and {2**self.key_bits} keys of {self.key_bits} bits that come at "
                    f"most {self.most} times each are too few; give more key_bits"
                )
            key = chance.below(2**self.key_bits)
            if key not in counts:
                counts[key] = 1 + chance.below(min(self.most, room))
                room -= counts[key]
        asked = chance.shuffled(list(counts))[: self.questions]
        keys = chance.shuffled([key for key, count in counts.items() for _ in range(count)])
        values = [chance.below(2**self.value_bits) for _ in keys]
        rows = np.concatenate([_bits(keys, self.key_bits), _bits(values, self.value_bits)], axis=-1)
        return self._item(rows, _bits(asked, self.key_bits))

    def read(self, text: str) -> SequenceItem:
        """The pairs and the keys that a person wrote.

        Raises:
            DataError: there is no question, a word is not of its bits, or a key comes never or too often.
        """
        given, mark, asked = text.partition("?")
        if not mark:
            raise DataError("there is no question: a ? and one of the keys")
        pairs = [word.partition(":") for word in given.split()]
        keys = read_rows([key for key, _, _ in pairs], self.key_bits)
        values = read_rows([value for _, _, value in pairs], self.value_bits)
        wanted = read_rows(asked.split(), self.key_bits)
        for key in wanted:
            came = len(_places(keys, key))
            if not 1 <= came <= self.most:
                raise DataError(f"{write_row(key)} is asked for and comes {came} times; expected 1 to {self.most}")
        return self._item(np.concatenate([keys, values], axis=-1), wanted)

    def write(self, bits: np.ndarray) -> str:
        """Each row of an answer as `count:value`, the count as a decimal number."""
        return " ".join(
            f"{int(write_row(row[: self.count_bits]), 2)}:{write_row(row[self.count_bits :])}" for row in bits
        )

    def rows(self, item: SequenceItem) -> list[str]:
        """A label for each row of the input: `key:value`, or `? key`."""
        keys = [write_row(row[: self.key_bits]) for row in item.question]
        values = [write_row(row[self.key_bits : -1]) for row in item.question[: item.length]]
        return [*map(":".join, zip(keys, values, strict=False)), *(f"? {key}" for key in keys[item.length :])]

    def sources(self, item: SequenceItem) -> list[int | None]:
        """For each key asked for, the row in which it came last."""
        keys = item.question[:, : self.key_bits]
        return [_places(keys[: item.length], key)[-1] for key in keys[item.length :]]

    def _item(self, rows: np.ndarray, asked: np.ndarray) -> SequenceItem:
        question = np.zeros((len(rows) + len(asked), self.inputs), np.float32)
        question[: len(rows), :-1] = rows
        question[len(rows) :, : self.key_bits], question[len(rows) :, -1] = asked, 1
        places = [_places(rows[:, : self.key_bits], key) for key in asked]
        counts = _bits([len(one) for one in places], self.count_bits)
        last = rows[[one[-1] for one in places], self.key_bits :]
        within = tuple(range(len(rows), len(question)))
        return SequenceItem(question, np.concatenate([counts, last], axis=-1), len(rows), within)


def _places(keys: np.ndarray, key: np.ndarray) -> list[int]:
    """Where a key comes."""
    return [int(place) for place in np.flatnonzero((keys == key).all(-1))]


def _bits(numbers: list[int], width: int) -> np.ndarray:
    """Each number as a row of bits, the greatest first."""
    return (np.array(numbers)[:, None] >> np.arange(width)[::-1] & 1).astype(np.float32)
