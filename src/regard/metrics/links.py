"""From soft weights to links: subwords merged to words, words linked, and baselines that use no weights.

Weights have a row per target word (or token) and a column per source word (or token).
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.pairs.parallel_text import Link
from regard.errors import ShapeError


def merge_to_words(
    weights: Float[Tensor, "target source"],
    source_words: Sequence[int],
    target_words: Sequence[int],
    *,
    source_count: int | None = None,
    target_count: int | None = None,
) -> Float[Tensor, "target_words source_words"]:
    """Weights between words, from weights between tokens: the sum over a source word's, the mean over a target word's.

    So rows that sum to 1 over the words' tokens still do.

    Args:
        weights: one row per target token, one column per source token; the result is on the CPU.
        source_words: the word that each source token belongs to; −1 for none. Columns beyond (EOS, padding)
            belong to no word either; their weight is left out and not made up for.
        target_words: the same for target tokens and rows.
        source_count: how many source words; by default as many as are named. A word without tokens gets 0.
        target_count: the same for the target.

    Raises:
        ShapeError: there are fewer rows or columns than tokens, or a word is beyond the count.
    """
    rows, columns = weights.shape
    if rows < len(target_words) or columns < len(source_words):
        raise ShapeError(
            f"weights of shape ({rows}, {columns}) do not fit {len(target_words)} target and {len(source_words)} "
            f"source tokens: they need a row per target token and a column per source token"
        )
    sources = _membership(source_words, source_count, "source")
    targets = _membership(target_words, target_count, "target")
    values = weights.detach().cpu().double()[: len(target_words), : len(source_words)]
    merged = targets @ values @ sources.T
    return (merged / targets.sum(dim=1, keepdim=True).clamp(min=1)).to(weights.dtype)


def links(weights: Float[Tensor, "target source"], threshold: float | None = None) -> frozenset[Link]:
    """Links `(source, target)` from weights.

    Args:
        weights: one row per target word.
        threshold: link every weight of at least this; by default the highest of each row (of equal ones the first), and
            none where the row is all 0.
    """
    values = weights.detach().cpu().double().numpy()
    if threshold is not None:
        return frozenset((int(source), int(target)) for target, source in np.argwhere(values >= threshold))
    if not values.size:
        return frozenset()
    best = values.argmax(axis=1)
    return frozenset((int(source), target) for target, source in enumerate(best) if values[target, source] > 0)


def diagonal(source_count: int, target_count: int) -> frozenset[Link]:
    """The baseline that uses only the lengths: each target word's middle, carried over to the source by proportion."""
    if not source_count:
        return frozenset()
    return frozenset(((2 * target + 1) * source_count // (2 * target_count), target) for target in range(target_count))


def uniform(source_count: int, target_count: int, seed: int | Sequence[int] = 0) -> frozenset[Link]:
    """The random baseline: each target word is linked to a source word drawn with equal chances.

    Args:
        source_count: words of the source.
        target_count: words of the target.
        seed: fixes the draws; give `(seed, sentence)` so that sentences differ.
    """
    if not source_count:
        return frozenset()
    drawn = np.random.default_rng(seed).integers(source_count, size=target_count)
    return frozenset((int(source), target) for target, source in enumerate(drawn))


def _membership(words: Sequence[int], count: int | None, side: str) -> Tensor:
    """1 where a token (column) belongs to a word (row)."""
    highest = max(words, default=-1)
    count = highest + 1 if count is None else count
    if highest >= count:
        raise ShapeError(f"a {side} token belongs to word {highest}, but there are {count} words, counted from 0")
    return (torch.arange(count)[:, None] == torch.tensor(list(words), dtype=torch.long)[None]).double()
