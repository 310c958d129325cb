"""Entropy of attention rows: values by hand."""

import math

import pytest
import torch

from regard.metrics.entropy import mean_row_entropy, row_entropy


def test_rows_by_hand():
    rows = torch.tensor(
        [
            [1.0, 0.0, 0.0, 0.0],  # one key
            [0.25, 0.25, 0.25, 0.25],  # all alike: log 4
            [0.5, 0.25, 0.25, 0.0],  # 1.5 bits
            [0.1, 0.1, 0.0, 0.0],  # does not sum to 1, as under a Gaussian: half and half
            [0.0, 0.0, 0.0, 0.0],  # saw nothing
        ]
    )
    expected = [0.0, math.log(4), 1.5 * math.log(2), math.log(2)]
    found = row_entropy(rows)
    assert found[:4].tolist() == pytest.approx(expected) and math.isnan(found[4])
    assert found.dtype == torch.float64


def test_the_mean_is_over_rows_not_over_sentences_and_leaves_out_those_that_saw_nothing():
    one = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 0.0]])
    other = torch.full((3, 5), 0.2)
    assert mean_row_entropy([one, other]) == pytest.approx((math.log(2) + 0.0 + 3 * math.log(5)) / 5)
    assert math.isnan(mean_row_entropy([one[2:]])) and math.isnan(mean_row_entropy([]))
