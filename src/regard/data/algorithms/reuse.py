"""Copy in several episodes, of more rows than a memory has slots, so that slots must be reused (Graves et al. 2016)."""

import numpy as np

from regard.data.algorithms.problem import SequenceItem, draw_bits, read_rows, write_row
from regard.data.algorithms.settings import ReuseCopySettings
from regard.data.chance import Chance
from regard.errors import DataError


class ReuseCopy:
    """Rows of bits, a mark, the rows again; then the next rows, and so on.

    All rows of a sequence may be more than a memory has slots, but those of one episode are few: a model that frees the
    slots of finished episodes can continue for ever. Inputs: the bits, a mark beside each row, and the mark that starts
    an answer.
    """

    def __init__(self, settings: ReuseCopySettings) -> None:
        self.bits, self.most = settings.bits, settings.rows
        self.inputs, self.outputs = self.bits + 2, self.bits
        one = f"{'01' * self.bits:.{self.bits}}"
        self.form = f"rows of {self.bits} bits with spaces between, and | between episodes, as in {one} {one} | {one}"

    def draw(self, chance: Chance, length: int) -> SequenceItem:
        """Episodes of random rows of bits; `length` counts episodes."""
        return self._item([draw_bits(chance, 1 + chance.below(self.most), self.bits) for _ in range(length)])

    def read(self, text: str) -> SequenceItem:
        """The episodes that a person wrote.

        Raises:
            DataError: an episode has no rows, or one is not of that many bits; the message names the episode.
        """
        episodes = []
        for number, part in enumerate(text.split("|"), 1):
            try:
                episodes.append(read_rows(part.split(), self.bits))
            except DataError as error:
                raise DataError(f"episode {number}: {error}") from error
        return self._item(episodes)

    def write(self, bits: np.ndarray) -> str:
        """An answer's bits, `(rows, bits)`, as words of 0 and 1."""
        return " ".join(map(write_row, bits))

    def rows(self, item: SequenceItem) -> list[str]:
        """A label for each row of the input: its bits, ? for the mark, nothing while the copy is expected."""

        def label(row: np.ndarray) -> str:
            given, asks = row[self.bits :]
            return write_row(row[: self.bits]) if given else "?" if asks else ""

        return list(map(label, item.question))

    def sources(self, item: SequenceItem) -> list[int | None]:
        """Output row n copies the n-th row given."""
        return list(map(int, np.flatnonzero(item.question[:, self.bits])))

    def _item(self, episodes: list[np.ndarray]) -> SequenceItem:
        question = np.zeros((sum(2 * len(rows) + 1 for rows in episodes), self.inputs), np.float32)
        output_steps: list[int] = []
        at = 0
        for rows in episodes:
            count = len(rows)
            question[at : at + count, : self.bits], question[at : at + count, self.bits] = rows, 1
            question[at + count, self.bits + 1] = 1
            output_steps += range(at + count + 1, at + 2 * count + 1)
            at += 2 * count + 1
        return SequenceItem(question, np.concatenate(episodes), len(episodes), tuple(output_steps))
