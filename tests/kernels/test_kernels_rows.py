"""Additive attention whose queries are taken some at a time: the reference's numbers, with memory that grows slowly."""

from types import SimpleNamespace

import pytest
import torch
from parts import MASKS, module, tensors

from reference.attention import plain_attend
from regard.attention.attend import attend, explain
from regard.kernels import additive, rows


@pytest.fixture
def in_parts(monkeypatch):
    """Every call of additive scores takes its path, by torch's own calls, a query or two at a time."""
    monkeypatch.setattr(additive, "_LEAST", 1)
    monkeypatch.setattr(additive, "_LEAST_COMPILED", 1)
    monkeypatch.setattr(additive, "compiler", SimpleNamespace(library=lambda name: None))
    monkeypatch.setattr(rows, "MANY", 1)
    monkeypatch.setattr(rows, "_PART", 25)


@pytest.mark.parametrize(("mask", "normalizer"), (("causal", "softmax"), ("no_keys", "sparsemax")))
def test_some_queries_at_a_time_are_all_of_them(in_parts, mask, normalizer):
    """Three queries in parts of one, with a bias of each query, or of all: the reference's numbers; explain tells."""
    query, key, value = tensors("additive", heads=2)
    made, (given, sees) = module("additive"), MASKS[mask]
    for bias in (torch.randn(2, 2, 3, 5).double(), torch.randn(1, 5).double()):
        attended = attend(query, key, value, score=made, normalizer=normalizer, mask=given, bias=bias)
        context, weights = plain_attend(
            query, key, value, score="additive", module=made, normalizer=normalizer,
            sees=lambda b, h, q, k: sees(b, q, k), bias=bias.expand(2, 2, 3, 5),
        )  # fmt: skip
        torch.testing.assert_close(attended.context, context)
        torch.testing.assert_close(attended.weights, weights)
        inputs = [query, key, value, made.query_weight, made.key_weight, made.vector]
        for ours, theirs in zip(
            torch.autograd.grad(attended.context.sin().sum(), inputs),
            torch.autograd.grad(context.sin().sum(), inputs),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)
    assert "some queries at a time" in str(explain(query, key, value, score=made, mask=given))


def test_dropout_in_parts_is_the_same_on_the_way_back(in_parts):
    """The context is linear in the value, and its gradient says with which weights: those that were kept."""
    query, key, value = tensors("additive")
    attended = attend(query, key, value, score=module("additive"), dropout=0.5)
    (found,) = torch.autograd.grad(attended.context.sum(), value)
    torch.testing.assert_close((found * value).sum(), attended.context.sum())
    assert not torch.allclose(attended.context, attended.weights @ value)
