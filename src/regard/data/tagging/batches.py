"""Tagged sentences as tensors, in batches of about as many words each."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.batching import batches_by_length, pad_words
from regard.data.chance import Chance
from regard.errors import DataError

UNTAGGED = -100
"""The tag of a place that holds no word."""


@dataclass(frozen=True)
class TaggedBatch:
    """Sentences side by side, padded on the right.

    Attributes:
        index: which sentences these are.
        ids: of the features of each word, its own first; 0 where there is none.
        lengths: words of each sentence.
        tags: the number of each word's tag; `UNTAGGED` where there is none.
    """

    index: Int64[Tensor, " batch"]
    ids: Int64[Tensor, "batch words features"]
    lengths: Int64[Tensor, " batch"]
    tags: Int64[Tensor, "batch words"]

    def __len__(self) -> int:
        return len(self.index)

    def to(self, device: torch.device | str) -> "TaggedBatch":
        """The same batch on another device."""
        return TaggedBatch(*(one.to(device) for one in (self.index, self.ids, self.lengths, self.tags)))


class TaggedBatches:
    """Batches of sentences of similar length, planned anew for each epoch.

    Args:
        sentences: of each, the ids of each word's features.
        tags: the number of each word's tag, as many.
        tokens: words of a batch at most, padding counted; a longer sentence makes a batch of its own.
        seed: with the number of the epoch it decides the order; the same on every machine.

    Raises:
        DataError: there are no sentences.
    """

    def __init__(self, sentences: list[list[list[int]]], tags: list[list[int]], tokens: int, seed: int = 0) -> None:
        if not sentences:
            raise DataError("there are no sentences to make batches of")
        self.sentences, self.tags, self.tokens, self.seed = sentences, tags, tokens, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """Which sentences make which batch in an epoch; each comes once."""
        return batches_by_length([len(one) for one in self.sentences], self.tokens, Chance("tagged", self.seed, epoch))

    def load(self, indices: list[int]) -> TaggedBatch:
        """The tensors of some sentences, in this order."""
        ids, lengths = pad_words([self.sentences[at] for at in indices])
        tags = torch.full(ids.shape[:2], UNTAGGED, dtype=torch.int64)
        for row, at in enumerate(indices):
            tags[row, : len(self.tags[at])] = torch.tensor(self.tags[at], dtype=torch.int64)
        return TaggedBatch(torch.tensor(indices), ids, lengths, tags)
