"""Sentence pairs as tensors, in batches of about as many tokens each."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.data.batching import pad
from regard.data.chance import Chance
from regard.data.translation.guidance import LinkWeights, dense_links
from regard.errors import ConfigError, DataError
from regard.vocabulary import BEGIN, END

Bucket = Literal["length", "equal"]


@dataclass(frozen=True)
class TextBatch:
    """Pairs side by side, padded with 0 on the right.

    Attributes:
        index: which pairs these are.
        source: source ids and EOS.
        source_lengths: tokens of each source, EOS counted.
        target_in: BOS and the target ids: the decoder's inputs.
        target_out: the target ids and EOS: the decoder's targets.
        target_lengths: tokens of each target, BOS or EOS counted.
        links: the attention weights to teach each target position, if any: rows that sum to 1, or to 0 where
            nothing is known (`data.translation.guidance`).
    """

    index: Int64[Tensor, " batch"]
    source: Int64[Tensor, "batch source"]
    source_lengths: Int64[Tensor, " batch"]
    target_in: Int64[Tensor, "batch target"]
    target_out: Int64[Tensor, "batch target"]
    target_lengths: Int64[Tensor, " batch"]
    links: Float[Tensor, "batch target source"] | None = None

    def __len__(self) -> int:
        return len(self.index)

    def to(self, device: torch.device | str) -> "TextBatch":
        """The same batch on another device."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        moved = {name: one.to(device, non_blocking=True) for name, one in held.items() if one is not None}
        return replace(self, **moved)


class TextBatches:
    """Batches of encoded pairs, planned anew for each epoch.

    Args:
        sources: ids of each source, without EOS.
        targets: ids of each target, without BOS and EOS; as many.
        tokens: no side of a batch has more positions than this, EOS and padding counted; a pair that is longer by
            itself makes a batch of its own.
        seed: with the number of the epoch it decides the order; the same on every machine.
        bucket: "length" puts pairs of similar lengths together; "equal" only pairs of one source length, so that a
            recurrent encoder meets no padding. Either way each pair comes once per epoch.
        links: of each pair, for batches that hold them.

    Raises:
        DataError: no pairs, or not as many sources as targets.
    """

    def __init__(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        tokens: int,
        seed: int = 0,
        bucket: Bucket = "length",
        links: list[LinkWeights] | None = None,
    ) -> None:
        if len(sources) != len(targets):
            raise DataError(f"{len(sources)} sources and {len(targets)} targets; each source needs its target")
        if not sources:
            raise DataError("there are no pairs to make batches of")
        if tokens < 1:
            raise ConfigError(f"batches of {tokens} tokens hold nothing; give 1 or more")
        if bucket not in ("length", "equal"):
            raise ConfigError(f"bucket is {bucket!r}; 'length' or 'equal' is expected")
        self.sources, self.targets, self.links = sources, targets, links
        self.tokens, self.seed, self.bucket = tokens, seed, bucket
        self._lengths = [(len(one) + 1, len(other) + 1) for one, other in zip(sources, targets, strict=True)]

    def __len__(self) -> int:
        """Batches in each epoch: lengths alone decide where a batch ends, so all epochs have as many."""
        return self._count

    @functools.cached_property
    def _count(self) -> int:
        return len(self.plan(0))

    def plan(self, epoch: int) -> list[list[int]]:
        """Which pairs make which batch in an epoch; seed and epoch alone decide it.

        Pairs are sorted by source and target length, in a new random order where both are equal, and cut into batches,
        of which the order is random too.
        """
        chance = Chance("batches", self.seed, epoch)
        order = sorted(chance.shuffled(range(len(self._lengths))), key=self._lengths.__getitem__)
        if self.bucket == "length":
            batches = list(self._cut(order))
        else:
            groups = groupby(order, key=lambda pair: self._lengths[pair][0])
            batches = [batch for _, group in groups for batch in self._cut(list(group))]
        return chance.shuffled(batches)

    def _cut(self, order: list[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        widest = 0
        for pair in order:
            wider = max(widest, *self._lengths[pair])
            if batch and wider * (len(batch) + 1) > self.tokens:
                yield batch
                batch, wider = [], max(self._lengths[pair])
            batch.append(pair)
            widest = wider
        if batch:
            yield batch

    def load(self, indices: list[int]) -> TextBatch:
        """The tensors of some pairs, in this order."""
        source, source_lengths = pad([[*self.sources[pair], END] for pair in indices])
        target_in, target_lengths = pad([[BEGIN, *self.targets[pair]] for pair in indices])
        target_out, _ = pad([[*self.targets[pair], END] for pair in indices])
        index = torch.tensor(indices, dtype=torch.int64)
        batch = TextBatch(index, source, source_lengths, target_in, target_out, target_lengths)
        if self.links is None:
            return batch
        weights_of_pairs = [self.links[pair] for pair in indices]
        return replace(batch, links=dense_links(weights_of_pairs, target_out.shape[1], source.shape[1]))
