"""B30: unknown output words become real source words, as they were typed."""

import pytest
import torch

from regard.decoding.unknown import replace_unknown
from regard.errors import ShapeError


@pytest.mark.parametrize(
    "row, word",
    [
        ((0.1, 0.2, 0.7), "runs"),  # the report's: the peak on the end mark is not a word
        ((0.1, 0.2, 0.1, 0.2, 0.2, 0.2), "runs"),  # a padded batch-mate longer by 3
        ((0.6, 0.2, 0.2), "Zork"),  # unknown itself, so its typed form is copied, not a marker
        ((0.3, 0.3, 0.4), "Zork"),  # a tie goes to the first
        ((0.0, 0.0, 1.0), "Zork"),
    ],
)
def test_only_real_source_words(row, word):
    alignment = torch.tensor([list(row), list(row)])  # the second row is the output's end mark
    assert replace_unknown(["<unk>"], [True], alignment, ["Zork", "runs"]) == [word]


def test_tokens_are_added_to_their_words():
    """Neither piece of the second word is the highest, together they are."""
    alignment = torch.tensor([[0.4, 0.3, 0.3, 0.0], [0.0, 0.1, 0.0, 0.9]])
    done = replace_unknown(["<unk>", "y"], [True, False], alignment, ["Émile", "Zátopek"], source_of=[0, 1, 1, -1])
    assert done == ["Zátopek", "y"]


def test_short_and_empty_sources():
    assert replace_unknown(["<unk>"], [True], torch.tensor([[0.1, 0.9]]), ["x"]) == ["x"]
    assert replace_unknown(["<unk>", "b"], [True, False], torch.zeros(2, 1), []) == ["b"]
    assert replace_unknown([], [], torch.zeros(1, 3), ["x", "y"]) == []


def test_shapes_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"alignment of shape \(1, 2\)"):
        replace_unknown(["a", "b"], [True, True], torch.zeros(1, 2), ["x"])
    with pytest.raises(ShapeError, match="source word 3"):
        replace_unknown(["a"], [True], torch.zeros(1, 2), ["x"], source_of=[0, 3])
