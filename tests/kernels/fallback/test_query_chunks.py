"""Additive attention whose queries are taken some at a time: the reference's numbers, with memory that grows slowly."""

import pytest
import torch

from regard import masks
from regard.attention.attend import attend
from regard.attention.explain import explain
from regard.kernels.additive import additive
from regard.kernels.fallback import query_chunks
from tests.attention.registered_parts import MASKS, module, tensors
from tests.native import needs_compiler
from tests.paths import lowered, without
from tests.reference.attention import plain_attend


@pytest.fixture
def in_parts(monkeypatch):
    """Every call of additive scores takes its path, by torch's own calls, a query or two at a time."""
    monkeypatch.setattr(additive.LIBRARY, "serves", lambda kind: False)
    with lowered(), without("additive"):
        yield


@pytest.fixture
def in_native_loop():
    """Every call of additive scores is weighed and read as they are made."""
    with lowered():
        yield


def assert_same_as_the_reference(mask, normalizer):
    """With a bias of each query, or of all."""
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
        torch.testing.assert_close(attended.statistics().received, weights.sum(-2))
        inputs = [query, key, value, made.query_weight, made.key_weight, made.vector]
        for ours, theirs in zip(
            torch.autograd.grad(attended.context.sin().sum(), inputs),
            torch.autograd.grad(context.sin().sum(), inputs),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("mask", "normalizer"), (("causal", "softmax"), ("no_keys", "sparsemax")))
def test_some_queries_at_a_time_are_all_of_them(in_parts, mask, normalizer):
    assert_same_as_the_reference(mask, normalizer)
    query, key, value = tensors("additive", heads=2)
    explanation = explain(query, key, value, score=module("additive"), normalizer=normalizer, mask=MASKS[mask][0])
    assert "some queries at a time" in str(explanation)


@needs_compiler
@pytest.mark.parametrize("mask", [name for name in MASKS if name != "around"])
def test_weighed_and_read_as_they_are_made(in_native_loop, mask):
    assert_same_as_the_reference(mask, "softmax")
    query, key, value = tensors("additive", heads=2)
    explanation = explain(query, key, value, score=module("additive"), mask=MASKS[mask][0])
    assert "weighed and read as they are made" in str(explanation)


@needs_compiler
@pytest.mark.parametrize("fill", (torch.nan, 1e300))
def test_the_loop_is_kept_from_masked_out_content(in_native_loop, fill):
    query, key, value = (one.detach().clone() for one in tensors("additive"))
    made, mask = module("additive"), masks.padding([3, 5]) & masks.causal()
    clean = attend(query, key, value, score=made, mask=mask).context
    key[0, 4], value[0, 3] = fill, fill
    torch.testing.assert_close(attend(query, key, value, score=made, mask=mask).context, clean)
    half = [one.to(torch.bfloat16) for one in (query[1:], key[1:], value[1:])]
    context = attend(*half, score=module("additive").bfloat16(), mask=masks.causal()).context
    assert context.dtype == torch.bfloat16
    torch.testing.assert_close(
        context.double(),
        attend(query[1:], key[1:], value[1:], score=made, mask=masks.causal()).context,
        atol=5e-2,
        rtol=5e-2,
    )


def test_dropout_in_chunks_is_the_same_in_the_backward_pass(in_parts):
    """The context is linear in the value, and its gradient says with which weights: those that were kept."""
    query, key, value = tensors("additive")
    attended = attend(query, key, value, score=module("additive"), dropout=0.5)
    (found,) = torch.autograd.grad(attended.context.sum(), value)
    torch.testing.assert_close((found * value).sum(), attended.context.sum())
    assert not torch.allclose(attended.context, attended.weights @ value)


def test_without_gradients_nothing_is_made_again(in_parts, monkeypatch):
    """Torch's checkpoint, whose first call loads torch's compiler, is for the way back alone."""
    query, key, value = tensors("additive")
    given = {"score": module("additive"), "mask": masks.causal(), "dropout": 0.5}
    torch.manual_seed(3)
    expected = attend(query, key, value, **given).context.detach()
    monkeypatch.setattr(query_chunks, "checkpoint", None)
    for mode in (torch.no_grad, torch.inference_mode):
        torch.manual_seed(3)
        with mode():
            assert torch.equal(attend(query, key, value, **given).context, expected)
