"""Running text as one stream of ids, and the windows that it is cut into.

Each line of a file is cut into pieces, and its end is a piece of its own (the id of `END`), so that a model can tell
where lines break and write them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.chance import Chance
from regard.data.lines import read_lines
from regard.data.stream_settings import LanguageData
from regard.data.tokenizers import Tokenizer
from regard.data.vocabulary import END, UNKNOWN
from regard.errors import ConfigError, DataError

Lines = list[str]


def read_parts(settings: LanguageData) -> tuple[Lines, Lines, Lines]:
    """The lines to train, to validate and to test on.

    Where no files are named for them, the last lines are for the test and those before them for the validation, so that
    no part stands in the middle of another.

    Raises:
        ConfigError: no text is named.
        DataError: a file cannot be read, or a part has no lines.
    """
    if settings.text is None:
        raise ConfigError("no text is named; give data.text=FILE")
    lines = [line for path in settings.text for line in read_lines(path)]
    test_from = len(lines) if settings.test else len(lines) - round(len(lines) * settings.test_share)
    held = 0 if settings.validation else round(len(lines) * settings.validation_share)
    validation_from = test_from - held
    training = lines[:validation_from]
    validation = read_lines(settings.validation) if settings.validation else lines[validation_from:test_from]
    test = read_lines(settings.test) if settings.test else lines[test_from:]
    for name, part in (("train", training), ("validate", validation), ("test", test)):
        if not any(line.strip() for line in part):
            raise DataError(
                f"the text has {len(lines)} lines, and those to {name} on are none or blank; give more text, another "
                "share, or files of their own (data.validation, data.test)"
            )
    return training, validation, test


@dataclass(frozen=True)
class Stream:
    """A text as ids.

    Attributes:
        ids: of all pieces and line ends.
        unknown: how many of them are words that the vocabulary does not know.
    """

    ids: list[int]
    unknown: int

    @classmethod
    def of(cls, lines: Iterable[str], tokenizer: Tokenizer) -> "Stream":
        """The stream of some lines."""
        ids: list[int] = []
        for line in lines:
            ids += tokenizer.encode(line).ids
            ids.append(END)
        return cls(ids, ids.count(UNKNOWN))


@dataclass(frozen=True)
class WindowBatch:
    """Windows side by side.

    Attributes:
        ids: each has one piece more than is told: the first is only read.
    """

    ids: Int64[Tensor, "batch positions"]

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str) -> "WindowBatch":
        """The same batch on another device."""
        return WindowBatch(self.ids.to(device))


class WindowBatches:
    """Windows of a stream, cut anew and put in a new order for each epoch.

    The first cut is drawn, so that in the course of the epochs a piece stands at every place of a window; what is left
    over before the first and after the last window is left out of that epoch.

    Args:
        stream: the ids.
        window: pieces that are told in a window; a shorter text is one window.
        batch: windows of a batch.
        seed: with the number of the epoch it decides cuts and order; the same on every machine.

    Raises:
        DataError: there are fewer than two pieces, so that there is nothing to tell.
    """

    def __init__(self, stream: list[int], window: int, batch: int, seed: int = 0) -> None:
        if len(stream) < 2:
            raise DataError(f"a text of {len(stream)} pieces has no next one to tell")
        self.ids = torch.tensor(stream, dtype=torch.int64)
        self.window, self.batch, self.seed = min(window, len(stream) - 1), batch, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """Where the windows of each batch of an epoch begin."""
        chance = Chance("windows", self.seed, epoch)
        told = len(self.ids) - 1
        first = chance.below(min(self.window, told - self.window + 1))
        starts = chance.shuffled(range(first, told - self.window + 1, self.window))
        return [starts[at : at + self.batch] for at in range(0, len(starts), self.batch)]

    def load(self, indices: list[int]) -> WindowBatch:
        """The windows that begin at some places."""
        return WindowBatch(torch.stack([self.ids[at : at + self.window + 1] for at in indices]))


@dataclass(frozen=True)
class Stretch:
    """A part of every stretch of a text, the same places of each, to be read on from the part before.

    Attributes:
        first: the place of its first piece in the stretch.
        read: what is read, one piece behind what is told.
        told: what is told; `ignored` where a stretch is over.
    """

    first: int
    read: Int64[Tensor, "stretches positions"]
    told: Int64[Tensor, "stretches positions"]


def stretches(stream: list[int], length: int, window: int, ignored: int) -> Iterator[Stretch]:
    """A whole text in parallel stretches, window by window: every piece is told once, and none is left out.

    The first piece of a stretch is told from the one before it; the first of the text from a line end.

    Args:
        stream: the ids.
        length: pieces of a stretch, each of which starts from a fresh state.
        window: pieces read in one go.
        ignored: what stands in `told` where there is nothing.
    """
    rows = -(-len(stream) // length)
    told = torch.full((rows * length,), ignored, dtype=torch.int64)
    told[: len(stream)] = torch.tensor(stream, dtype=torch.int64)
    read = torch.full_like(told, END)
    read[1 : len(stream)] = told[: len(stream) - 1]
    longest = min(length, len(stream))
    told, read = told.view(rows, length), read.view(rows, length)
    for first in range(0, longest, window):
        places = slice(first, min(first + window, longest))
        yield Stretch(first, read[:, places], told[:, places])


def text_of(paths: list[Path]) -> Lines:
    """The lines of some files, one after the other.

    Raises:
        DataError: a file cannot be read, or there are no lines.
    """
    lines = [line for path in paths for line in read_lines(path)]
    if not lines:
        raise DataError(f"there is no text in {', '.join(map(str, paths))}")
    return lines
