"""Every score × normalizer × mask of the registry against the plain reference, gradients too, in float64."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.parts.normalize import normalizers
from regard.attention.parts.score_base import scores
from tests.attention.registered_parts import BATCH, KEYS, MASKS, NORMALIZERS, QUERIES, SCORES, module, tensors
from tests.reference.attention import plain_attend

# "relative" (Shaw's) wraps another score and has its own tests; the others must all be here.
OWN_TESTS = {"relative"}
ALIASES = {"concat", "bilinear"}


def test_every_registered_part_is_in_this_suite():
    assert set(scores) - ALIASES - OWN_TESTS <= set(SCORES)
    assert set(normalizers) == set(NORMALIZERS)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("score", SCORES)
def test_agrees_with_the_plain_reference(score, normalizer, mask):
    query, key, value = tensors(score)
    made = module(score)
    given, sees = MASKS[mask]
    torch.manual_seed(5)
    attended = attend(query, key, value, score=made, normalizer=normalizer, mask=given)
    torch.manual_seed(5)
    uniform = torch.rand(BATCH, QUERIES, KEYS, dtype=torch.float64)[:, None]
    context, weights = plain_attend(
        *(tensor[:, None] for tensor in (query, key, value)),
        score=score,
        module=made,
        normalizer=normalizer,
        sees=lambda b, h, q, k: sees(b, q, k),
        uniform=uniform,
    )
    context, weights = context[:, 0], weights[:, 0]
    # "sum" divides by a sum that may be near 0 where scores have both signs, so its error is relative.
    torch.testing.assert_close(attended.context, context, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(attended.weights, weights, rtol=1e-9, atol=1e-11)

    inputs = [query, key, value, *made.parameters()]
    direction = torch.randn(context.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    fast = torch.autograd.grad((attended.context * direction).sum(), inputs, allow_unused=True)
    slow = torch.autograd.grad((context * direction).sum(), inputs, allow_unused=True)
    for ours, theirs, tensor in zip(fast, slow, inputs, strict=True):
        zero = torch.zeros_like(tensor)
        torch.testing.assert_close(
            zero if ours is None else ours, zero if theirs is None else theirs, rtol=1e-7, atol=1e-9
        )


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("normalizer", ("softmax", "sparsemax", "entmax15", "sigmoid"))
def test_gradients_of_weights_and_their_logarithms(normalizer, mask):
    """The weights and log_weights of a call are differentiable too, and agree with each other."""
    query, key, _ = tensors("additive")
    attended = attend(query, key, score=module("additive"), normalizer=normalizer, mask=MASKS[mask][0])
    seen = attended.weights > 0
    torch.testing.assert_close(attended.log_weights[seen].exp(), attended.weights[seen])
    assert (attended.log_weights[~seen] == -torch.inf).all()
    by_weights = torch.autograd.grad(attended.weights[seen].log().sum(), query, retain_graph=True)[0]
    by_logs = torch.autograd.grad(attended.log_weights[seen].sum(), query)[0]
    torch.testing.assert_close(by_weights, by_logs)
    assert by_logs.isfinite().all()


@pytest.mark.parametrize("mask", ("none", "causal", "no_keys", "joined"))
@pytest.mark.parametrize("score", SCORES)
def test_gradcheck_and_double_backward(score, mask):
    query, key, value = tensors(score)
    made = module(score)

    def context(query, key, value):
        # refocus with the identity leaves the fused path, whose kernel has no second derivative
        return attend(query, key, value, score=made, mask=MASKS[mask][0], refocus=[lambda w: w]).context

    assert torch.autograd.gradcheck(context, (query, key, value), fast_mode=True)
    assert torch.autograd.gradgradcheck(context, (query, key, value), fast_mode=True)


@pytest.mark.parametrize("normalizer", ("softmax", "sparsemax", "entmax15", "sigmoid", "identity"))
def test_gradcheck_of_normalizers(normalizer):
    query, key, value = tensors("additive")
    made = module("additive")
    mask = MASKS["joined"][0]

    def context(query, key, value):
        return attend(query, key, value, score=made, normalizer=normalizer, mask=mask).context

    assert torch.autograd.gradcheck(context, (query, key, value), fast_mode=True)
    assert torch.autograd.gradgradcheck(context, (query, key, value), fast_mode=True)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("heads", "key_heads"), ((6, 6), (6, 3), (6, 1)))
def test_heads_and_groups(score, heads, key_heads):
    """Head h reads key head h // (heads / key_heads)."""
    query, key, value = tensors(score, heads=heads, key_heads=key_heads)
    made = module(score)
    mask, sees = MASKS["joined"]
    for bias in (None, torch.randn(BATCH, heads, QUERIES, KEYS, dtype=torch.float64)):
        attended = attend(query, key, value, score=made, mask=mask, bias=bias)
        context, weights = plain_attend(
            query, key, value, score=score, module=made, sees=lambda b, h, q, k: sees(b, q, k), bias=bias
        )
        torch.testing.assert_close(attended.context, context)
        torch.testing.assert_close(attended.weights, weights)
    direction = torch.randn_like(context)
    fast = torch.autograd.grad((attended.context * direction).sum(), (query, key, value), allow_unused=True)
    slow = torch.autograd.grad((context * direction).sum(), (query, key, value), allow_unused=True)
    for ours, theirs in zip(fast, slow, strict=True):
        if theirs is not None:
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("score", SCORES)
def test_permutation(score, normalizer):
    """Scores by content follow their keys; the context does not notice the order."""
    query, key, value = tensors(score)
    made = module(score)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.manual_seed(0)
    plain = attend(query, key, value, score=made, normalizer=normalizer)
    torch.manual_seed(0)
    permuted = attend(query, key[:, order], value[:, order], score=made, normalizer=normalizer)
    if made.by_content and not normalizers.make(normalizer).draws:
        torch.testing.assert_close(permuted.weights, plain.weights[..., order])
        torch.testing.assert_close(permuted.context, plain.context)
    if score in ("location", "feed_forward"):
        assert not made.by_content
        torch.testing.assert_close(permuted.weights, plain.weights)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_one_item_alone_is_as_in_the_batch(score, mask):
    query, key, value = tensors(score)
    made = module(score)
    drawn = MASKS[mask][1]
    together = attend(query, key, value, score=made, mask=MASKS[mask][0])
    for item in range(BATCH):
        keep = torch.tensor([[[drawn(item, q, k) for k in range(KEYS)] for q in range(QUERIES)]])
        alone = attend(query[item, None], key[item, None], value[item, None], score=made, mask=keep)
        torch.testing.assert_close(alone.context[0], together.context[item])
        torch.testing.assert_close(alone.weights[0], together.weights[item])
