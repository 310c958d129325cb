"""Sentences as tensors, in batches of about as many tokens each, with the number of their label."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.batching import batches_by_length, pad
from regard.data.chance import Chance
from regard.errors import DataError


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences side by side, padded with 0 on the right.

    Attributes:
        index: which sentences these are.
        ids: of their tokens.
        lengths: tokens of each.
        labels: the number of each one's label.
    """

    index: Int64[Tensor, " batch"]
    ids: Int64[Tensor, "batch positions"]
    lengths: Int64[Tensor, " batch"]
    labels: Int64[Tensor, " batch"]

    def __len__(self) -> int:
        return len(self.index)

    def to(self, device: torch.device | str) -> "SentenceBatch":
        """The same batch on another device."""
        return SentenceBatch(*(one.to(device) for one in (self.index, self.ids, self.lengths, self.labels)))


class SentenceBatches:
    """Batches of sentences of similar length, planned anew for each epoch.

    Args:
        sentences: ids of each.
        labels: the number of each one's label.
        tokens: positions of a batch at most, padding counted; a longer sentence makes a batch of its own.
        seed: with the number of the epoch it decides the order; the same on every machine.

    Raises:
        DataError: there are no sentences.
    """

    def __init__(self, sentences: list[list[int]], labels: list[int], tokens: int, seed: int = 0) -> None:
        if not sentences:
            raise DataError("there are no sentences to make batches of")
        self.sentences, self.labels, self.tokens, self.seed = sentences, labels, tokens, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """Which sentences make which batch in an epoch; each comes once."""
        return batches_by_length(
            [len(one) for one in self.sentences], self.tokens, Chance("sentences", self.seed, epoch)
        )

    def load(self, indices: list[int]) -> SentenceBatch:
        """The tensors of some sentences, in this order."""
        ids, lengths = pad([self.sentences[at] for at in indices])
        index, labels = torch.tensor(indices), torch.tensor([self.labels[at] for at in indices])
        return SentenceBatch(index, ids, lengths, labels)
