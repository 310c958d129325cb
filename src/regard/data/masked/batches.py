"""Text with gaps: running text in windows, of which some tokens are hidden and are to be told.

A line's end is a token of its own (the id of `END`), as in `data.language.stream`. Unknown words are read but never
told: no answer to them could be right.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from regard.data.chance import Chance
from regard.data.masked.settings import NAMED, MaskedData, Masking
from regard.data.settings import Part
from regard.data.text.hash_split import part_of
from regard.data.text.lines import read_lines
from regard.data.text.standard_library import standard_library
from regard.data.tokenizers.base import Tokenizer
from regard.errors import ConfigError, DataError
from regard.vocabulary import END, SPECIALS


def read_text(settings: MaskedData) -> dict[Part, list[str]]:
    """The lines of each part, blank ones left out.

    Raises:
        ConfigError: no text is named.
        DataError: a file cannot be read, or a part has no lines.
    """
    parts: dict[Part, list[str]] = {"training": [], "validation": [], "test": []}
    if settings.standard_library:
        for source in standard_library():
            parts[part_of(source.name, settings.validation_share, settings.test_share)] += _filled(source.lines)
    elif settings.text is not None:
        lines = [line for path in settings.text for line in _filled(read_lines(path))]
        test = len(lines) - round(len(lines) * settings.test_share)
        validation = test - round(len(lines) * settings.validation_share)
        parts = {"training": lines[:validation], "validation": lines[validation:test], "test": lines[test:]}
    else:
        raise ConfigError(f"no text is named; give {NAMED}")
    for name, held in parts.items():
        if not held:
            raise DataError(f"the text is too short: no line of it is for {name}. Give more, or other shares")
    return parts


def _filled(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def stream_of(lines: Iterable[str], tokenizer: Tokenizer) -> Int64[Tensor, " tokens"]:
    """All tokens of some lines, each with its end; the text begins with an end, as if a line had been before it."""
    ids = [END]
    for line in lines:
        ids += tokenizer.encode(line).ids
        ids.append(END)
    return torch.tensor(ids, dtype=torch.int64)


@dataclass(frozen=True)
class MaskedBatch:
    """Windows of one width side by side.

    Attributes:
        index: which windows these are.
        ids: as they are read, with what is hidden replaced.
        told: at which places the model is to tell what stood there.
        answers: what stood there, row by row.
    """

    index: Int64[Tensor, " batch"]
    ids: Int64[Tensor, "batch positions"]
    told: Bool[Tensor, "batch positions"]
    answers: Int64[Tensor, " answers"]

    def __len__(self) -> int:
        return len(self.index)

    def to(self, device: torch.device | str) -> "MaskedBatch":
        """The same batch on another device."""
        return MaskedBatch(*(one.to(device) for one in (self.index, self.ids, self.told, self.answers)))


def hide(
    ids: Int64[Tensor, "*shape"], masking: Masking, vocabulary: int, draws: Float[Tensor, " three *shape"]
) -> tuple[Int64[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
    """Choose tokens to be told, and hide them: as [MASK], as another token, or not at all.

    Args:
        ids: of tokens.
        masking: the shares.
        vocabulary: how many ids there are; [MASK] is the next one after them.
        draws: three for each token, from 0 up to 1: whether it is told, how it is hidden, and which token replaces it.

    Returns:
        What is read, and where it is to be told.
    """
    told = (draws[0] < masking.share) & ((ids >= len(SPECIALS)) | (ids == END))
    masked = told & (draws[1] < masking.masked)
    replaced = told & ~masked & (draws[1] < masking.masked + masking.replaced)
    others = len(SPECIALS) + (draws[2] * (vocabulary - len(SPECIALS))).long()
    return torch.where(masked, vocabulary, torch.where(replaced, others, ids)), told


class MaskedBatches:
    """Windows of a text, hidden and ordered anew for each epoch.

    A window's number says its epoch too (`epoch × tokens + first token`), so that what is hidden in it depends on seed
    and number alone: a resumed run, and each of several processes, hides the same.

    Args:
        stream: the ids.
        window: tokens of a window; a shorter text is one window.
        batch: windows of a batch.
        masking: what is hidden.
        vocabulary: how many ids there are.
        seed: of order and gaps.

    Raises:
        DataError: there is nothing to read.
    """

    def __init__(
        self, stream: Int64[Tensor, " tokens"], window: int, batch: int, masking: Masking, vocabulary: int, seed: int
    ) -> None:
        if len(stream) < 2:
            raise DataError(f"a text of {len(stream)} tokens has nothing to hide and something to tell it from")
        if vocabulary <= len(SPECIALS):
            raise DataError("the vocabulary has no entry beside the special ones: there is nothing to tell")
        self.stream, self.window, self.batch = stream, min(window, len(stream)), batch
        self.masking, self.vocabulary, self.seed = masking, vocabulary, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """The windows of each batch; the first cut is drawn, and what is left over at both ends waits for an epoch."""
        chance = Chance("gaps", self.seed, epoch)
        first = chance.below(min(self.window, len(self.stream) - self.window + 1))
        starts = chance.shuffled(range(first, len(self.stream) - self.window + 1, self.window))
        numbers = [epoch * len(self.stream) + start for start in starts]
        return [numbers[at : at + self.batch] for at in range(0, len(numbers), self.batch)]

    def load(self, indices: list[int]) -> MaskedBatch:
        """The windows of these numbers, with their gaps."""
        return self._batch([(number, self.window) for number in indices])

    def whole(self) -> list[MaskedBatch]:
        """The whole text in order, each token once: what an evaluation reads. The last window may be a short one."""
        starts = range(0, len(self.stream), self.window)
        spans = [(start, min(self.window, len(self.stream) - start)) for start in starts]
        full = [span for span in spans if span[1] == self.window]
        short = [span for span in spans if 1 < span[1] < self.window]
        groups = [full[at : at + self.batch] for at in range(0, len(full), self.batch)]
        return [self._batch(group) for group in (*groups, short) if group]

    def _batch(self, spans: list[tuple[int, int]]) -> MaskedBatch:
        rows, draws = [], []
        for number, width in spans:
            start = number % len(self.stream)
            rows.append(self.stream[start : start + width])
            draws.append(np.random.Generator(np.random.PCG64([self.seed, number])).random((3, width)))
        ids = torch.stack(rows)
        read, told = hide(ids, self.masking, self.vocabulary, torch.from_numpy(np.stack(draws, 1)))
        return MaskedBatch(torch.tensor([number for number, _ in spans]), read, told, ids[told])
