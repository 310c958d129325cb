"""A score's call and a projection that a subclass overrides are obeyed on every path."""

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.attention.modules.local import LocalAttention

WIDTH = 7
PAIR = {"query_dim": WIDTH, "key_dim": WIDTH}
SCORES = {
    "dot": ({}, "softmax", 301),
    "scaled_dot": ({}, "softmax", 5),
    "general": (PAIR, "softmax", 301),
    "cosine": ({"strength": 3.0}, "softmax", 301),
    "additive": (PAIR | {"hidden_dim": 5}, "softmax", 1451),
    "location_aware": (PAIR | {"hidden_dim": 5}, "softmax", 1451),
    "linear": ({}, "sum", 61),
}


def own(module, **methods):
    module.__class__ = type("Own", (type(module),), methods)
    return module


def centred(kind):
    """Scores that depend on each other: products of two sides could not make them."""

    def forward(self, query, prepared):
        scores = kind.forward(self, query, prepared)
        return 2 * scores + (scores - scores.mean(-1, keepdim=True)).abs()

    return forward


@pytest.mark.parametrize("gradient", (True, False))
@pytest.mark.parametrize("name", SCORES)
def test_a_call_of_ones_own_is_obeyed(name, gradient):
    sizes, normalizer, size = SCORES[name]
    torch.manual_seed(0)
    made = regard.Attention(regard.score(name, **sizes), normalizer)
    query, key, value = (torch.randn(1, size, WIDTH) for _ in range(3))
    with torch.set_grad_enabled(gradient):
        plain = made(query, key, value).context
        own(made.score, forward=centred(type(made.score)))
        found = made(query, key, value)
        weights = made.normalizer(made.score(query, made.score.prepare(key)), None)
        assert_close(found.context, weights @ value, rtol=1e-4, atol=1e-5)
        assert_close(found.weights, weights, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found.context, plain, atol=1e-3)


@pytest.mark.parametrize("method", ("prepare", "dot_form"))
def test_a_side_of_a_product_of_features_is_obeyed(method):
    made = regard.Attention(regard.score("linear"), "sum")
    query, key, value = (torch.randn(2, 61, WIDTH) for _ in range(3))
    plain, kind = made(query, key, value).context, type(made.score)

    def prepare(self, key):
        prepared = kind.prepare(self, key)
        return prepared._replace(projected=prepared.projected.square())

    def dot_form(self, query, prepared):
        left, right, scale = kind.dot_form(self, query, prepared)
        return left.square(), right, scale

    own(made.score, **{method: {"prepare": prepare, "dot_form": dot_form}[method]})
    found = made(query, key, value).context
    weights = made.normalizer(made.score(query, made.score.prepare(key)), None)
    assert_close(found, weights @ value, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, plain, atol=1e-3)


@pytest.mark.parametrize("name", ("dot", "general", "cosine", "additive"))
def test_a_call_of_ones_own_is_obeyed_within_a_window(name):
    sizes, *_ = SCORES[name]
    torch.manual_seed(0)
    made = LocalAttention(regard.score(name, **sizes), 3)
    query, key, value = torch.randn(2, 3, WIDTH), torch.randn(2, 401, WIDTH), torch.randn(2, 401, WIDTH)
    where = {"lengths": torch.tensor([401, 300]), "positions": 7}
    plain = made(query, key, value, **where).context
    own(made.score, forward=centred(type(made.score)))
    found = made(query, key, value, **where)
    keep = made.focus(query, **where).mask
    wanted = regard.attend(query, key, value, score=made.score, mask=keep, refocus=[lambda weights: weights])
    assert_close(found.context, wanted.context, rtol=1e-4, atol=1e-5)
    assert made.explain(query, key, value, **where).path != "local"
    assert not torch.allclose(found.context, plain, atol=1e-3)


@pytest.mark.parametrize("size", (5, 200))
def test_a_projection_of_ones_own_is_obeyed(size):
    torch.manual_seed(0)
    heads, x = SelfHeads(64, 4), torch.randn(2, size, 64)
    plain = heads.self_attend(x, AttentionContext(causal=True)).context

    def project(self, x, turn):
        query, keys = SelfHeads.project(self, x, turn)
        return 2 * query, keys

    own(heads, project=project)
    found = heads.self_attend(x, AttentionContext(causal=True)).context
    assert_close(found, heads(*heads.project(x, None), AttentionContext(causal=True)).context, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, plain, atol=1e-4)
