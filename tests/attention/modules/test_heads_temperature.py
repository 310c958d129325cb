"""Heads of a stack: temperature and bias count whatever reads them (a native loop, torch's kernel, `attend`)."""

import pytest
import torch
from torch import nn

from regard.attention.modules.heads import AttentionContext, CrossHeads, SelfHeads
from regard.attention.parts.normalize import Softmax
from regard.kernels.dot import dot
from regard.kernels.transformer import self_attention
from tests.reference.attention import plain_attend

BATCH, HEADS, KEY_HEADS, DIM = 2, 2, 1, 32
LARGE, SMALL = 97, 7


def made(kind, temperature, dtype):
    """Heads whose projection back changes nothing."""
    torch.manual_seed(0)
    heads = kind(DIM, HEADS, key_heads=KEY_HEADS, bias=False, normalizer=Softmax(temperature)).to(dtype)
    nn.init.eye_(heads.output.weight)
    return heads


def assert_same_as_the_reference(attended, query, keys, temperature, bias, causal, leaves, close):
    """Of the first query, the last one and one between."""
    size = query.shape[2]
    rows = torch.tensor([0, size // 2, size - 1])
    context, weights = plain_attend(
        query[:, :, rows],
        keys.key,
        keys.value,
        score="scaled_dot",
        sees=lambda b, h, q, k: k <= rows[q] or not causal,
        bias=None if bias is None else bias[:, :, rows].expand(BATCH, HEADS, len(rows), -1),
        temperature=temperature,
    )
    ours, theirs = attended.context[:, rows], context.transpose(1, 2).flatten(2)
    torch.testing.assert_close(ours, theirs, **close)
    torch.testing.assert_close(attended.weights[:, :, rows], weights, **close)
    gradients = [torch.autograd.grad(one.sin().sum(), leaves, retain_graph=True) for one in (ours, theirs)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, **close)


@pytest.mark.parametrize("temperature", (1.0, 0.37))
@pytest.mark.parametrize("bias", ("none", "fixed", "learned"))
@pytest.mark.parametrize("size", (LARGE, SMALL))
@pytest.mark.parametrize("kind", (SelfHeads, CrossHeads))
def test_heads(monkeypatch, kind, size, bias, temperature):
    looped = []
    attention = dot.attention
    monkeypatch.setattr(dot, "attention", lambda *given, **named: looped.append(1) or attention(*given, **named))
    heads = made(kind, temperature, torch.float64)
    x = torch.randn(BATCH, size, DIM, dtype=torch.float64).requires_grad_()
    added = None if bias == "none" else torch.randn(1, HEADS, size, size, dtype=torch.float64)
    if bias == "learned":
        added.requires_grad_()
    query, keys = heads.project(x, None) if kind is SelfHeads else (heads.project_query(x), heads.project(x))
    attended = heads(query, keys, AttentionContext(causal=True, bias=added))
    assert bool(looped) == (size == LARGE and dot.serves(query, query, query))
    leaves = [x, *([added] if bias == "learned" else [])]
    assert_same_as_the_reference(attended, query, keys, temperature, added, True, leaves, {"rtol": 1e-7, "atol": 1e-9})


@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize("temperature", (1.0, 0.37))
def test_heads_that_read_one_product(monkeypatch, temperature, causal):
    """The loop that reads queries, keys and values from one product is given the temperature in its scale."""
    together = []
    attention = self_attention.attention
    monkeypatch.setattr(
        self_attention, "attention", lambda *given, **named: together.append(1) or attention(*given, **named)
    )
    heads = made(SelfHeads, temperature, torch.float32)
    x = torch.randn(BATCH, LARGE, DIM, requires_grad=True)
    attended = heads.self_attend(x, AttentionContext(causal=causal))
    served = self_attention.serves(heads.inputs(x), HEADS, KEY_HEADS, DIM // HEADS)
    assert bool(together) == served
    close = {"rtol": 1e-3, "atol": 1e-5}
    assert_same_as_the_reference(attended, *heads.project(x, None), temperature, None, causal, [x], close)
