"""The formula of a call, step by step: scores, bias, read; what the paths that follow it literally have in common."""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.call.call import Call
from regard.attention.call.recompute import ALL, cast
from regard.attention.parts.functional import wide
from regard.attention.parts.score_base import Prepared
from regard.kernels.dot import dropout_mask
from regard.kernels.fallback import query_chunks


def ready(call: Call) -> Prepared:
    """The keys, prepared by the caller or now."""
    return call.score.prepare(call.key) if call.prepared is None else call.prepared


def for_all_heads(call: Call, tensor: Tensor) -> Tensor:
    """(batch, key_heads, …) -> (batch, heads, …)."""
    share = 1 if call.query.ndim == 3 else call.query.shape[1] // call.key.shape[1]
    return tensor if share == 1 else tensor.repeat_interleave(share, dim=1)


def scores_of(call: Call, prepared: Prepared, part: slice = ALL) -> Tensor:
    """Of some queries against all keys, with the bias."""
    query = call.query if part == ALL else call.query[..., part, :]
    keys = Prepared(for_all_heads(call, prepared.key), for_all_heads(call, prepared.projected))
    return biased(call, call.score(query, keys), part)


def biased(call: Call, scores: Tensor, part: slice) -> Tensor:
    """Scores of some queries, with the bias."""
    bias = query_chunks.chunk_of(call.bias, part)
    return scores if bias is None else scores + wide(bias)


def read(call: Call, weights: Tensor) -> Tensor:
    """Weights times values, after dropout."""
    assert call.value is not None
    value = for_all_heads(call, call.value)
    if call.dropout > 0:
        if call.seed is None:
            weights = F.dropout(weights, call.dropout)
        else:
            weights = weights * dropout_mask.multipliers(call.seed, call.dropout, weights.detach())
    weights = cast(value.dtype, weights)
    # torch takes longer to dispatch a product of any shapes than to compute a small one.
    alike = weights.ndim == 3 and weights.shape[0] == value.shape[0]
    return cast(call.query.dtype, torch.bmm(weights, value) if alike else torch.matmul(weights, value))
