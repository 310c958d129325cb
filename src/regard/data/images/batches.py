"""Pictures and their captions as tensors: what a captioner trains on and is measured by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int, Num
from torch import Tensor

from regard.data.chance import Chance
from regard.data.images.captioned import Captioned, Named, Pictures
from regard.data.text.units import normalize, units
from regard.data.tokenizers.base import Tokenizer
from regard.errors import DataError
from regard.vocabulary import BEGIN, END, PADDING

UNTOLD = -100
"""The target of a place behind the end."""

_TOGETHER = 32
"""Rows of a part: 16 in two halves took a third longer than in one."""


@dataclass(frozen=True)
class CaptionBatch:
    """Pictures side by side, each with one caption, padded on the right.

    Attributes:
        pictures: pixels `(batch, size, size, 3)`, uint8; or features, see `models.captioner_settings.Features`.
        words_in: the begin mark and the words.
        words_out: the words and the end mark, which a caption that was cut does not have; `UNTOLD` behind it.
    """

    pictures: Num[Tensor, "batch rows columns width"]
    words_in: Int[Tensor, "batch steps"]
    words_out: Int[Tensor, "batch steps"]

    def __len__(self) -> int:
        return len(self.pictures)

    def to(self, device: torch.device | str) -> "CaptionBatch":
        """The same batch on another device."""
        return replace(
            self,
            pictures=self.pictures.to(device),
            words_in=self.words_in.to(device),
            words_out=self.words_out.to(device),
        )

    def by_length(self) -> list[tuple[Int[Tensor, " rows"], int]]:
        """The rows from those with the shortest caption on, some `_TOGETHER` at a time, and the steps of each part.

        A decoder that steps through them by themselves computes little behind a short caption's end; a step of fewer
        rows takes hardly less time.
        """
        lengths, order = (self.words_out != UNTOLD).sum(1).sort(stable=True)
        parts = max(1, len(order) // _TOGETHER)
        each = zip(order.tensor_split(parts), lengths.tensor_split(parts), strict=True)
        return [(rows, int(steps[-1])) for rows, steps in each]

    @staticmethod
    def of(
        pictures: Sequence[np.ndarray], captions: Sequence[Sequence[int]], longest: int | None = None
    ) -> "CaptionBatch":
        """Pictures of one size, and the ids of their words without marks.

        Args:
            pictures: one a caption.
            captions: of any lengths.
            longest: words of a caption at most. One that is cut there does not end there: it tells no end mark.

        Raises:
            DataError: features of several sizes, which cannot be trained on together.
        """
        if len(shapes := {picture.shape for picture in pictures}) > 1:
            raise DataError(f"pictures of one batch have shapes {sorted(shapes)}; features must all be of one shape")
        cut = [ids[:longest] for ids in captions]
        steps = max(len(ids) for ids in cut) + 1
        read, said = np.full((len(cut), steps), PADDING), np.full((len(cut), steps), UNTOLD)
        for row, (ids, whole) in enumerate(zip(cut, captions, strict=True)):
            read[row, : len(ids) + 1] = [BEGIN, *ids]
            said[row, : len(ids) + 1] = [*ids, END if len(ids) == len(whole) else UNTOLD]
        return CaptionBatch(torch.from_numpy(np.stack(pictures)), torch.from_numpy(read), torch.from_numpy(said))


class CaptionBatches:
    """Follows `training.place.Batches`: in each epoch every picture once, with the next of its captions.

    Args:
        pictures: the training's.
        tokenizer: cuts captions.
        batch: pictures of a batch.
        longest: words of a caption at most; what is behind them is not learned.
        endless: whether the source has a picture for every number, so that each epoch may go on counting.
        seed: with the number of the epoch it decides the order of a source that is not endless.
    """

    def __init__(
        self, pictures: Pictures, tokenizer: Tokenizer, batch: int, longest: int, *, endless: bool, seed: int
    ) -> None:
        self.pictures, self.tokenizer, self.batch, self.longest = pictures, tokenizer, batch, longest
        self.endless, self.seed = endless, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """The numbers of the images in each batch of an epoch; a number says the epoch too."""
        count = len(self.pictures)
        places = np.arange(count) if self.endless else Chance("captions", self.seed, epoch).order(count)
        numbers = (places + epoch * count).tolist()
        return [numbers[start : start + self.batch] for start in range(0, count, self.batch)]

    def load(self, indices: list[int]) -> CaptionBatch:
        """The images of these numbers, each with the epoch's next of its captions."""
        count = len(self.pictures)
        shown = [self.pictures[number if self.endless else number % count] for number in indices]
        texts = [one.captions[number // count % len(one.captions)] for one, number in zip(shown, indices, strict=True)]
        return CaptionBatch.of(
            [one.pixels for one in shown], [self.tokenizer.encode(text).ids for text in texts], self.longest
        )


@dataclass(frozen=True)
class NamedWord:
    """A word that belongs to an object's name.

    Attributes:
        step: which word of the caption, from 0; the look before it is its own.
        object: the object's number among those of the caption.
    """

    step: int
    object: int


def named_words(picture: Captioned) -> list[NamedWord]:
    """The words of the first caption that name objects whose place is known, in units of regard's own.

    The tokenizer must be one of words: then step and word are one.
    """

    def within(start: int, one: Named) -> bool:
        return one.start <= start < one.end

    return [
        NamedWord(step, number)
        for step, unit in enumerate(units(normalize(picture.captions[0])))
        for number, one in enumerate(picture.named)
        if within(unit.start, one)
    ]
