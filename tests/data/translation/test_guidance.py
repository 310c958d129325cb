"""Links of words spread over tokens, by hand."""

import torch

from regard.data.pairs.parallel_text import Pair
from regard.data.tokenizers.base import Encoded
from regard.data.translation.batches import TextBatches
from regard.data.translation.guidance import dense_links, link_weights


def encoded(words):
    return Encoded([9] * len(words), ["x"] * len(words), words)


def pair(links, counted="tokenizer"):
    return Pair("it's two days", "deux jours", "here", 1, links, links, counted)


def test_a_target_token_attends_to_all_tokens_of_its_words_source_words():
    """Source words of 1, 2, 1 tokens; target words of 1, 2. Word 1 reads words 1 and 2: a third on each token."""
    links = frozenset({(0, 0), (1, 1), (2, 1)})
    found = link_weights(pair(links), encoded([0, 1, 1, 2]), encoded([0, 1, 1]), 20)
    third = 1 / 3
    assert found == [(0, 0, 1.0), *((row, column, third) for row in (1, 2) for column in (1, 2, 3))]
    weights = dense_links([found, []], 4, 6)
    assert weights.shape == (2, 4, 6) and not weights[1].any()
    torch.testing.assert_close(weights[0].sum(-1), torch.tensor([1.0, 1.0, 1.0, 0.0]))  # none for the end mark


def test_what_is_not_linked_or_cut_off_does_not_count():
    links = frozenset({(2, 0), (0, 1)})
    assert link_weights(pair(links), encoded([0, 1, 2]), encoded([0, 1]), 2) == [(1, 0, 1.0)]
    assert link_weights(pair(links), encoded([0, 1, 2]), encoded([0, 1]), 1) == []
    assert link_weights(pair(frozenset()), encoded([0]), encoded([0]), 9) == []
    assert link_weights(pair(None), encoded([0]), encoded([0]), 9) == []


def test_links_that_count_words_between_white_space():
    """`it's` is three words of ours (it, ', s) and one between white space."""
    links = frozenset({(0, 0), (1, 1)})
    found = link_weights(pair(links, "whitespace"), encoded([0, 1, 2, 3, 4]), encoded([0, 1]), 9)
    assert found == [(0, 0, 1 / 3), (0, 1, 1 / 3), (0, 2, 1 / 3), (1, 3, 1.0)]


def test_batches_hold_links_only_if_they_are_given():
    sides = [[5, 6], [7]], [[8], [9, 9]]
    assert TextBatches(*sides, tokens=20).load([0]).links is None
    batch = TextBatches(*sides, tokens=20, links=[[(0, 1, 1.0)], [(1, 0, 1.0)]]).load([1, 0])
    expected = torch.zeros(2, 3, 3)
    expected[0, 1, 0] = expected[1, 0, 1] = 1
    assert torch.equal(batch.links, expected) and torch.equal(batch.to("cpu").links, expected)
