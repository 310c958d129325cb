"""What batches of all kinds share: padding, and items of similar length side by side."""

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.chance import Chance
from regard.vocabulary import PADDING


def pad(rows: list[list[int]]) -> tuple[Int64[Tensor, "rows longest"], Int64[Tensor, " rows"]]:
    """Rows of ids as one tensor, with 0 after the shorter ones, and their lengths."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    longest = max(map(len, rows), default=0)
    filled = [row + [PADDING] * (longest - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.int64).reshape(len(rows), longest), lengths


def pad_words(
    sentences: list[list[list[int]]],
) -> tuple[Int64[Tensor, "batch words features"], Int64[Tensor, " batch"]]:
    """Sentences of words of features as one tensor, with 0 after the shorter ones, and the words of each."""
    longest = max(map(len, sentences), default=0)
    most = max((len(word) for sentence in sentences for word in sentence), default=0)
    ids = torch.full((len(sentences), longest, most), PADDING, dtype=torch.int64)
    for row, sentence in enumerate(sentences):
        filled = [word + [PADDING] * (most - len(word)) for word in sentence]
        ids[row, : len(sentence)] = torch.tensor(filled, dtype=torch.int64).reshape(len(sentence), most)
    return ids, torch.tensor([len(one) for one in sentences], dtype=torch.int64)


def batches_by_length(lengths: list[int], tokens: int, chance: Chance) -> list[list[int]]:
    """Batches of items of similar length, each item in one, in an order that chance makes.

    Args:
        lengths: of each item.
        tokens: positions of a batch at most, padding counted; a longer item makes a batch of its own.
        chance: decides the order of items of a length, and that of the batches.
    """
    batches: list[list[int]] = []
    for at in sorted(chance.shuffled(range(len(lengths))), key=lengths.__getitem__):
        # Sorted by length, so that this one is the widest of its batch.
        if not batches or lengths[at] * (len(batches[-1]) + 1) > tokens:
            batches.append([])
        batches[-1].append(at)
    return chance.shuffled(batches)
