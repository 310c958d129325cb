"""Dropout's draws by torch's calls are those of the loop."""

import pytest
import torch

from regard.kernels.dot import dot, dropout_mask
from tests.kernels.dot.dot_reference import ALL
from tests.native import needs_compiler

SHAPES = ((2, 3, 97, 101), (1, 2, 50, 401), (2, 1, 17, 67), (1, 1, 300, 1031))


@needs_compiler
@pytest.mark.parametrize("kind", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("rate", (1e-9, 0.1, 0.5, 0.999, 1.0))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_draws_are_those_of_the_loop(shape, rate, kind):
    """All scores are 0: what is read of the identity is 1 / keys times what is kept."""
    batch, heads, queries, keys = shape
    query, key = (torch.zeros(batch, heads, size, 3, dtype=kind) for size in (queries, keys))
    identity = torch.eye(keys, dtype=kind).expand(batch, heads, keys, keys)
    for seed in (0, 1, 2**62 - 1, dropout_mask.new_seed()):
        read = dot.attention(query, key, identity, visible=ALL, bias=None, scale=1.0, dropout=rate, seed=seed)
        kept = dropout_mask.multipliers(seed, rate, read)
        assert torch.equal(read != 0, kept != 0)
        torch.testing.assert_close(read * keys, kept)


def test_of_three_axes_and_any_strides():
    whole = torch.empty(2, 31, 67)
    kept = dropout_mask.multipliers(5, 0.3, whole)
    assert kept.shape == whole.shape and 0.25 < (kept == 0).double().mean() < 0.35
    assert torch.equal(kept[kept != 0].unique(), torch.tensor([1 / (1 - 0.3)]))
    turned = dropout_mask.multipliers(5, 0.3, torch.empty(67, 31, 2).permute(2, 1, 0))
    assert torch.equal(turned, kept) and turned.is_contiguous()
    assert torch.equal(dropout_mask.multipliers(5, 0.3, whole.unsqueeze(1)).squeeze(1), kept)
    assert not torch.equal(dropout_mask.multipliers(6, 0.3, whole), kept)


def test_a_seed_is_torchs_next_number():
    torch.manual_seed(7)
    one = dropout_mask.new_seed(), dropout_mask.new_seed()
    torch.manual_seed(7)
    assert one == (dropout_mask.new_seed(), dropout_mask.new_seed()) and one[0] != one[1]
