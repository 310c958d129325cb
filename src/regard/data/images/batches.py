"""Images and their captions as tensors: what a captioner is trained and evaluated on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int, Num
from torch import Tensor

from regard.data.chance import Chance
from regard.data.images.captioned import CaptionedImage, ImageSource, NamedObject
from regard.data.text.units import normalize, units
from regard.data.tokenizers.base import Tokenizer
from regard.errors import DataError
from regard.vocabulary import BEGIN, END, PADDING

IGNORED = -100
"""The target after the end of a caption: no loss there."""

_TOGETHER = 32
"""Rows of a part: 16 in two halves took a third longer than in one."""


@dataclass(frozen=True)
class CaptionBatch:
    """Images side by side, each with one caption, padded on the right.

    Attributes:
        images: pixels `(batch, size, size, 3)`, uint8; or features (`data.images.features`).
        words_in: BEGIN and the words.
        words_out: the words and END, which a truncated caption does not have; `IGNORED` after it.
    """

    images: Num[Tensor, "batch rows columns width"]
    words_in: Int[Tensor, "batch steps"]
    words_out: Int[Tensor, "batch steps"]

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device | str) -> "CaptionBatch":
        """The same batch on another device."""
        return replace(
            self,
            images=self.images.to(device),
            words_in=self.words_in.to(device),
            words_out=self.words_out.to(device),
        )

    def by_length(self) -> list[tuple[Int[Tensor, " rows"], int]]:
        """The rows from those with the shortest caption on, some `_TOGETHER` at a time, and the steps of each part.

        A decoder that runs over each part by itself computes little after a short caption's end; a step of fewer
        rows takes hardly less time.
        """
        lengths, order = (self.words_out != IGNORED).sum(1).sort(stable=True)
        parts = max(1, len(order) // _TOGETHER)
        each = zip(order.tensor_split(parts), lengths.tensor_split(parts), strict=True)
        return [(rows, int(steps[-1])) for rows, steps in each]

    @staticmethod
    def of(
        images: Sequence[np.ndarray], captions: Sequence[Sequence[int]], longest: int | None = None
    ) -> "CaptionBatch":
        """Images of one size, and the ids of their words without BEGIN and END.

        Args:
            images: one a caption.
            captions: of any lengths.
            longest: words of a caption at most. One that is cut there does not end there: it has no END.

        Raises:
            DataError: features of several sizes, which cannot be trained on together.
        """
        if len(shapes := {image.shape for image in images}) > 1:
            raise DataError(f"images of one batch have shapes {sorted(shapes)}; features must all be of one shape")
        cut = [ids[:longest] for ids in captions]
        steps = max(len(ids) for ids in cut) + 1
        inputs, targets = np.full((len(cut), steps), PADDING), np.full((len(cut), steps), IGNORED)
        for row, (ids, whole) in enumerate(zip(cut, captions, strict=True)):
            inputs[row, : len(ids) + 1] = [BEGIN, *ids]
            targets[row, : len(ids) + 1] = [*ids, END if len(ids) == len(whole) else IGNORED]
        return CaptionBatch(torch.from_numpy(np.stack(images)), torch.from_numpy(inputs), torch.from_numpy(targets))


class CaptionBatches:
    """Follows `training.state.Batches`: each image once per epoch, with the next of its captions.

    Args:
        images: the training's.
        tokenizer: cuts captions.
        batch: images of a batch.
        longest: words of a caption at most; the rest is not learned.
        endless: whether the source has an image for every number, so that each epoch may continue the numbers.
        seed: with the number of the epoch it decides the order of a source that is not endless.
    """

    def __init__(
        self, images: ImageSource, tokenizer: Tokenizer, batch: int, longest: int, *, endless: bool, seed: int
    ) -> None:
        self.images, self.tokenizer, self.batch, self.longest = images, tokenizer, batch, longest
        self.endless, self.seed = endless, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """The numbers of the images in each batch of an epoch; a number says the epoch too."""
        count = len(self.images)
        places = np.arange(count) if self.endless else Chance("captions", self.seed, epoch).order(count)
        numbers = (places + epoch * count).tolist()
        return [numbers[start : start + self.batch] for start in range(0, count, self.batch)]

    def load(self, indices: list[int]) -> CaptionBatch:
        """The images of these numbers, each with the epoch's next of its captions."""
        count = len(self.images)
        shown = [self.images[number if self.endless else number % count] for number in indices]
        texts = [one.captions[number // count % len(one.captions)] for one, number in zip(shown, indices, strict=True)]
        return CaptionBatch.of(
            [one.pixels for one in shown], [self.tokenizer.encode(text).ids for text in texts], self.longest
        )


@dataclass(frozen=True)
class ObjectWord:
    """A word that belongs to an object's name.

    Attributes:
        step: which word of the caption, from 0; the attention weights of that decoding step are its own.
        object: the object's number among those of the caption.
    """

    step: int
    object: int


def object_words(image: CaptionedImage) -> list[ObjectWord]:
    """The words of the first caption that name objects whose place is known, in units of regard's own.

    The tokenizer must be one of words: then step and word are one.
    """

    def within(start: int, one: NamedObject) -> bool:
        return one.start <= start < one.end

    return [
        ObjectWord(step, number)
        for step, unit in enumerate(units(normalize(image.captions[0])))
        for number, one in enumerate(image.named)
        if within(unit.start, one)
    ]
