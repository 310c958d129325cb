"""Statistics of weights: the right values, the same from every path, in memory below queries × keys."""

import math

import pytest
import torch

import regard
from regard import masks
from regard.attention import statistics as under_test
from regard.errors import ConfigError


def attended(path: str, mask=None, dtype=torch.float64):
    """A call that takes this path, of 3 items, 2 heads, 29 queries and 31 keys or as the path wants it."""
    torch.manual_seed(0)
    queries, keys = (31, 31) if path == "linear" else (29, 31)
    query, key, value = (torch.randn(3, 2, n, 5, dtype=dtype) for n in (queries, keys, keys))
    options = {
        "explicit": {"normalizer": "entmax15"},
        "fused": {},
        "linear": {"score": "linear", "normalizer": "sum"},
    }[path]
    assert regard.explain(query, key, value, mask=mask, **options).path == path
    return regard.attend(query, key, value, mask=mask, **options)


def plainly(weights):
    """From the definition, one query at a time."""
    rows = weights.reshape(-1, weights.shape[-1]).tolist()
    entropy = [-sum(w * math.log(w) for w in row if w > 0) for row in rows]
    return torch.tensor(entropy, dtype=weights.dtype).view(weights.shape[:-1])


@pytest.mark.parametrize("path", ["explicit", "fused", "linear"])
@pytest.mark.parametrize("part", [7, 2**20])
@pytest.mark.parametrize("mask", [None, masks.causal()])
def test_they_are_those_of_the_weights(path, part, mask, monkeypatch):
    monkeypatch.setattr(under_test, "_PART", part)
    found = attended(path, mask).statistics(top=3)
    weights = attended(path, mask).weights
    torch.testing.assert_close(found.entropy, plainly(weights))
    torch.testing.assert_close(found.maximum, weights.amax(-1))
    torch.testing.assert_close(found.received, weights.sum(-2))
    torch.testing.assert_close(found.top_weights, weights.sort(dim=-1, descending=True).values[..., :3])
    torch.testing.assert_close(weights.gather(-1, found.top_keys), found.top_weights)


def test_values_by_hand():
    """Weights 1/2, 1/4, 1/4: entropy 3/2 ln 2; keys alike: ln n."""
    query = torch.tensor([[[1.0], [0.0]]])
    key = torch.tensor([[[math.log(2)], [0.0], [0.0]]])
    found = regard.attend(query, key, key, score="dot").statistics(top=1)
    torch.testing.assert_close(found.entropy, torch.tensor([[1.5 * math.log(2), math.log(3)]]))
    torch.testing.assert_close(found.maximum, torch.tensor([[0.5, 1 / 3]]))
    torch.testing.assert_close(found.received, torch.tensor([[5 / 6, 7 / 12, 7 / 12]]))
    assert found.top_keys[0, 0].tolist() == [0]


def test_a_fully_masked_query_has_no_weight_anywhere():
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    found = regard.attend(query, key, key, mask=masks.padding([0, 4])).statistics()
    assert found.entropy[0].tolist() == [0, 0, 0] and found.maximum[0].tolist() == [0, 0, 0]
    assert found.received[0].tolist() == [0] * 7
    torch.testing.assert_close(found.received[1].sum(), torch.tensor(3.0))
    assert found.top_weights.shape == (2, 3, 0)


@pytest.mark.parametrize("queries, keys", [(0, 7), (3, 0), (0, 0)])
def test_no_keys_at_all(queries, keys):
    query, key = torch.randn(2, queries, 5), torch.randn(2, keys, 5)
    found = regard.attend(query, key, key).statistics()
    assert found.entropy.shape == found.maximum.shape == (2, queries)
    assert found.received.tolist() == torch.zeros(2, keys).tolist()


def test_half_precision_is_counted_in_float32_and_nothing_has_a_gradient():
    query, key = (torch.randn(2, n, 5, dtype=torch.bfloat16, requires_grad=True) for n in (3, 7))
    found = regard.attend(query, key, key).statistics()
    assert found.entropy.dtype == found.received.dtype == torch.float32
    assert not found.entropy.requires_grad


@pytest.mark.parametrize("top", [-1, 8])
def test_more_keys_than_there_are_cannot_be_the_largest(top):
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    with pytest.raises(ConfigError, match="0 to the 7 keys"):
        regard.attend(query, key, key).statistics(top=top)


def test_a_recorded_call_has_statistics():
    attention = regard.MultiHeadAttention(dim=12, heads=3)
    with regard.record(attention) as seen:
        attention(torch.randn(2, 7, 12))
    [call] = seen[""]
    torch.testing.assert_close(call.statistics().received, call.weights.sum(-2))


def test_they_are_kept_once_made_and_fewer_are_a_part_of_more():
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    attended = regard.attend(query, key, key, statistics=4)
    key.zero_()  # what is made already does not change
    four, fewer = attended.statistics(top=4), attended.statistics(top=2)
    assert torch.equal(four.top_keys[..., :2], fewer.top_keys) and fewer.top_weights.shape == (2, 3, 2)
    with pytest.raises(ConfigError, match="top="):
        attended.statistics(top=-1)
    assert four.maximum.std() > 0
