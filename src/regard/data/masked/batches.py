"""Masked text: running text in windows, of which some tokens are masked and predicted (Devlin et al. 2019).

A line's end is a token of its own (the id of `END`), as in `data.language.stream`. Unknown words are read but never
predicted: no prediction could be right.
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


def token_stream(lines: Iterable[str], tokenizer: Tokenizer) -> Int64[Tensor, " tokens"]:
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
        ids: the inputs, masked tokens replaced.
        predicted: at which positions the model predicts the original token.
        targets: the original tokens there, row by row.
    """

    index: Int64[Tensor, " batch"]
    ids: Int64[Tensor, "batch positions"]
    predicted: Bool[Tensor, "batch positions"]
    targets: Int64[Tensor, " answers"]

    def __len__(self) -> int:
        return len(self.index)

    def to(self, device: torch.device | str) -> "MaskedBatch":
        """The same batch on another device."""
        return MaskedBatch(*(one.to(device) for one in (self.index, self.ids, self.predicted, self.targets)))


def mask_tokens(
    ids: Int64[Tensor, "*shape"], masking: Masking, vocabulary: int, draws: Float[Tensor, " three *shape"]
) -> tuple[Int64[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
    """Choose tokens to predict, and replace them: by [MASK], by another token, or not at all.

    Args:
        ids: of the text.
        masking: the shares.
        vocabulary: how many ids there are; [MASK] is the next one after them.
        draws: three for each token, from 0 up to 1: whether it is predicted, how it is replaced, and by which token.

    Returns:
        The inputs, and the positions to predict.
    """
    predicted = (draws[0] < masking.share) & ((ids >= len(SPECIALS)) | (ids == END))
    masked = predicted & (draws[1] < masking.masked)
    replaced = predicted & ~masked & (draws[1] < masking.masked + masking.replaced)
    others = len(SPECIALS) + (draws[2] * (vocabulary - len(SPECIALS))).long()
    return torch.where(masked, vocabulary, torch.where(replaced, others, ids)), predicted


class MaskedBatches:
    """Windows of a text, masked and ordered anew for each epoch.

    A window's number says its epoch too (`epoch × tokens + first token`), so that its masks depend on seed and
    number alone: a resumed run, and each of several processes, masks the same tokens.

    Args:
        stream: the ids.
        window: tokens of a window; a shorter text is one window.
        batch: windows of a batch.
        masking: the shares.
        vocabulary: how many ids there are.
        seed: of order and masks.

    Raises:
        DataError: the text or the vocabulary is too small to predict anything.
    """

    def __init__(
        self, stream: Int64[Tensor, " tokens"], window: int, batch: int, masking: Masking, vocabulary: int, seed: int
    ) -> None:
        if len(stream) < 2:
            raise DataError(
                f"a text of {len(stream)} tokens is too short: one is masked, and another is needed to predict it from"
            )
        if vocabulary <= len(SPECIALS):
            raise DataError("the vocabulary has no entry beside the special ones: there is nothing to predict")
        self.stream, self.window, self.batch = stream, min(window, len(stream)), batch
        self.masking, self.vocabulary, self.seed = masking, vocabulary, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """The windows of each batch; the first begins at a random token, so that what is left over differs by epoch."""
        chance = Chance("gaps", self.seed, epoch)
        first = chance.below(min(self.window, len(self.stream) - self.window + 1))
        starts = chance.shuffled(range(first, len(self.stream) - self.window + 1, self.window))
        numbers = [epoch * len(self.stream) + start for start in starts]
        return [numbers[at : at + self.batch] for at in range(0, len(numbers), self.batch)]

    def load(self, indices: list[int]) -> MaskedBatch:
        """The windows of these numbers, masked."""
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
        inputs, predicted = mask_tokens(ids, self.masking, self.vocabulary, torch.from_numpy(np.stack(draws, 1)))
        return MaskedBatch(torch.tensor([number for number, _ in spans]), inputs, predicted, ids[predicted])
