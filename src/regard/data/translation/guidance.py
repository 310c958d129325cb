"""Known links as weights between tokens: the targets of guided alignment."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.pairs.parallel_text import Pair
from regard.data.text.units import whitespace_words
from regard.data.tokenizers.base import Encoded

# (target token, source token, weight); the weights of a target token sum to 1.
LinkWeights = list[tuple[int, int, float]]


def link_weights(pair: Pair, source: Encoded, target: Encoded, most: int) -> LinkWeights:
    """The sure links of a pair of sentences, distributed over tokens: A* of guided alignment (Chen et al. 2016).

    Each token of a linked target word attends to all tokens of the source words that its word is linked to, equally. A
    token without links, and EOS, are left out.

    Args:
        pair: its links, counted as it says; none if they are unknown.
        source, target: both sides in tokens.
        most: tokens of a side that are kept.
    """
    if not pair.links:
        return []
    source_word_of, target_word_of = _words(pair, pair.source, source)[:most], _words(pair, pair.target, target)[:most]
    tokens: dict[int, list[int]] = {}  # of each source word
    for token, word in enumerate(source_word_of):
        tokens.setdefault(word, []).append(token)
    linked: dict[int, list[int]] = {}  # source tokens of each target word
    for source_word, target_word in sorted(pair.links):
        linked.setdefault(target_word, []).extend(tokens.get(source_word, []))
    return [
        (row, column, 1 / len(linked[word]))
        for row, word in enumerate(target_word_of)
        if linked.get(word)
        for column in linked[word]
    ]


def dense_links(
    weights_of_pairs: Sequence[LinkWeights], targets: int, sources: int
) -> Float[Tensor, "batch {targets} {sources}"]:
    """The weights of some pairs side by side, 0 wherever there is no link."""
    weights = torch.zeros(len(weights_of_pairs), targets, sources)
    cells = [(row, *cell) for row, cells in enumerate(weights_of_pairs) for cell in cells]
    if cells:
        rows, lines, columns, values = zip(*cells, strict=True)
        weights[torch.tensor(rows), torch.tensor(lines), torch.tensor(columns)] = torch.tensor(values)
    return weights


def _words(pair: Pair, text: str, encoded: Encoded) -> list[int]:
    """The word of each token, counted as the pair's links count them."""
    if pair.counted == "tokenizer":
        return encoded.words
    spaced = whitespace_words(text)
    return [spaced[word] for word in encoded.words]
