"""Running text as one stream of ids, the windows that training cuts it into, and the segments of an evaluation.

Each line is cut into tokens, and its end is a token of its own (the id of `END`), so that a model learns where lines
break. Where documents have borders, each ends with the id of `BEGIN`: the last target of one document, and the first
input of the next.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.chance import Chance
from regard.data.text.documents import Line
from regard.data.tokenizers.base import Tokenizer
from regard.errors import DataError
from regard.vocabulary import BEGIN, END, PADDING, UNKNOWN

_TOGETHER = 1 << 12
"""Tokens of an evaluation in one call, about; each has as many logits as the vocabulary has entries."""


def line_ids(line: Line, tokenizer: Tokenizer, border: bool) -> list[int]:
    """The ids of a line with its end, if that is here; with a border, the end of the document before comes first."""
    return [BEGIN] * border + tokenizer.encode(line.text).ids + [END] * line.ends


def smallest_id_type(vocabulary: int) -> np.dtype:
    """The smallest integer type that holds all ids of a vocabulary."""
    return np.dtype("<u2" if vocabulary <= 1 << 16 else "<i4")


@dataclass(frozen=True)
class TokenStream:
    """A text as ids.

    Attributes:
        ids: of all tokens, line ends and borders; in memory, or on the disk.
        unknown: how many of them are words that the vocabulary does not know.
        borders: whether its documents end with `BEGIN`.
    """

    ids: np.ndarray
    unknown: int
    borders: bool = False

    @classmethod
    def of(cls, lines: Iterable[Line | str], tokenizer: Tokenizer, borders: bool = False) -> "TokenStream":
        """The stream of some lines, in memory."""
        ids = array("i")
        for given in lines:
            line = Line(given) if isinstance(given, str) else given
            ids.extend(line_ids(line, tokenizer, borders and line.first and bool(ids)))
        if borders and ids:
            ids.append(BEGIN)
        return cls(np.array(ids, smallest_id_type(len(tokenizer))), ids.count(UNKNOWN), borders)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def start_id(self) -> int:
        """The input before the first token: as if a line, or a document, had just ended."""
        return BEGIN if self.borders else END


@dataclass(frozen=True)
class WindowBatch:
    """Windows side by side.

    Attributes:
        ids: inputs and targets in one: all but the last, and all but the first of each row.
    """

    ids: Int64[Tensor, "batch positions"]

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str) -> "WindowBatch":
        """The same batch on another device."""
        return WindowBatch(self.ids.to(device))

    @property
    def documents(self) -> Int64[Tensor, "batch positions"]:
        """The number of each token's document within its window; `BEGIN` starts one."""
        return (self.ids == BEGIN).long().cumsum(1)


class EpochBatches(Sequence[list[int]]):
    """The batches of an epoch as lists of numbers, kept as one array: text that fills a disk has many windows.

    Args:
        items: all numbers, in order.
        batch: how many make a batch.
    """

    def __init__(self, items: np.ndarray, batch: int) -> None:
        self.items, self.batch = items, batch

    def __len__(self) -> int:
        return -(-len(self.items) // self.batch)

    @overload
    def __getitem__(self, at: int) -> list[int]: ...
    @overload
    def __getitem__(self, at: slice) -> list[list[int]]: ...
    def __getitem__(self, at: int | slice) -> list[int] | list[list[int]]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        place = range(len(self))[at] * self.batch
        one: list[int] = self.items[place : place + self.batch].tolist()
        return one


class WindowBatches:
    """Windows of a stream, cut anew and put in a new order for each epoch.

    The first window begins at a random token, so that over the epochs a token stands at every position of a window. The
    tokens before the first and after the last window are left out of that epoch.

    Args:
        stream: the ids, from which windows are read when they are needed.
        window: targets of a window; a shorter text is one window.
        batch: windows of a batch.
        seed: with the number of the epoch it decides cuts and order; the same on every machine.

    Raises:
        DataError: there are fewer than two tokens, so that there is nothing to predict.
    """

    def __init__(self, stream: np.ndarray | Sequence[int], window: int, batch: int, seed: int = 0) -> None:
        if len(stream) < 2:
            raise DataError(f"a text of {len(stream)} tokens has no next one to predict")
        self.ids = np.asanyarray(stream)
        self.window, self.batch, self.seed = min(window, len(stream) - 1), batch, seed

    def plan(self, epoch: int) -> Sequence[list[int]]:
        """Where the windows of each batch of an epoch begin."""
        chance = Chance("windows", self.seed, epoch)
        targets = len(self.ids) - 1
        first = chance.below(min(self.window, targets - self.window + 1))
        starts = np.arange(first, targets - self.window + 1, self.window)
        return EpochBatches(starts[chance.order(len(starts))], self.batch)

    def load(self, indices: list[int]) -> WindowBatch:
        """The windows that begin at some places."""
        windows = np.stack([self.ids[at : at + self.window + 1] for at in indices])
        return WindowBatch(torch.from_numpy(windows.astype(np.int64)))


@dataclass(frozen=True)
class EvaluationSegment:
    """The same positions of several rows of a text; the state is carried over from the segment before.

    Attributes:
        start: the position of its first token in its row; 0 is where rows start from a fresh state.
        inputs: the token before each target; padding where a row is over.
        targets: the tokens to predict; `ignored` where a row is over.
    """

    start: int
    inputs: Int64[Tensor, "rows positions"]
    targets: Int64[Tensor, "rows positions"]


def evaluation_segments(
    stream: TokenStream, length: int, window: int, ignored: int, by_document: bool = False
) -> Iterator[EvaluationSegment]:
    """A whole text in rows, some side by side, window by window: every token is predicted once, none is left out.

    The first token of a row is predicted from the one before it; the first of the text as after a line end or a border.

    Args:
        stream: the text.
        length: tokens of a row at most, each of which starts from a fresh state.
        window: tokens of a row in one segment.
        ignored: the target where a row is over.
        by_document: begin a row with each document.
    """
    rows = _rows(stream, length, by_document)
    together = max(1, _TOGETHER // min(length, window))
    for at in range(0, len(rows), together):
        some = rows[at : at + together].tolist()
        longest = max(stop - start for start, stop in some)
        targets = torch.full((len(some), longest), ignored, dtype=torch.int64)
        inputs = torch.full_like(targets, PADDING)
        for row, (start, stop) in enumerate(some):
            before = [stream.start_id] if start == 0 else stream.ids[start - 1 : start].tolist()
            ids = torch.tensor([*before, *stream.ids[start:stop].tolist()])
            inputs[row, : stop - start], targets[row, : stop - start] = ids[:-1], ids[1:]
        for first in range(0, longest, window):
            places = slice(first, min(first + window, longest))
            yield EvaluationSegment(first, inputs[:, places], targets[:, places])


def _rows(stream: TokenStream, length: int, by_document: bool) -> np.ndarray:
    """First place of each row, and the one after its last; those of documents by length, so that few are padded."""
    if not by_document:
        starts = np.arange(0, len(stream), length)
        return np.stack([starts, np.minimum(starts + length, len(stream))], axis=1)
    ends = np.flatnonzero(stream.ids == BEGIN) + 1
    ends = ends if len(ends) and ends[-1] == len(stream) else np.append(ends, len(stream))
    rows = [
        (start, min(start + length, int(end)))
        for begin, end in zip([0, *ends[:-1].tolist()], ends, strict=True)
        for start in range(begin, int(end), length)
    ]
    rows.sort(key=lambda row: row[0] - row[1])
    return np.array(rows, dtype=np.int64).reshape(-1, 2)
