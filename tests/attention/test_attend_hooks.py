"""Hooks of a score or a normalizer are called, and what they return counts, on every path."""

import pytest
import torch

import regard
from regard import masks
from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.attention.parts.mask_kinds import Sizes
from regard.kernels.autograd.hooks import RecordingHook, is_exactly, is_hooked, overrides, weights_of

WIDTH = 7
SCORES = {
    "scaled_dot": ("scaled_dot", "softmax", 5),
    "scaled_dot, large": ("scaled_dot", "softmax", 301),
    "general, large": ("general", "softmax", 301),
    "additive": ("additive", "softmax", 5),
    "additive, large": ("additive", "softmax", 1451),
    "linear": ("linear", "sum", 61),
}


def attention(name):
    score, normalizer, size = SCORES[name]
    sizes = {"general": {"query_dim": WIDTH, "key_dim": WIDTH}}
    sizes["additive"] = {**sizes["general"], "hidden_dim": 5}
    torch.manual_seed(0)
    made = regard.Attention(regard.score(score, **sizes.get(score, {})), normalizer)
    return made, [torch.randn(2, size, WIDTH) for _ in range(3)]


def expected(made, query, key, value):
    """The score's own call, the normalizer's, and a product; with their hooks."""
    return made.normalizer(made.score(query, made.score.prepare(key)), None) @ value


@pytest.mark.parametrize("gradient", (True, False))
@pytest.mark.parametrize("part", ("score", "normalizer"))
@pytest.mark.parametrize("name", SCORES)
def test_hooks_are_called_and_count(name, part, gradient):
    made, given = attention(name)
    calls, listened = [], getattr(made, part)
    with torch.set_grad_enabled(gradient):
        plain = made(*given).context
        for register in (listened.register_forward_hook, listened.register_forward_pre_hook):
            hook = register(lambda *_: calls.append(1))  # the first gets what came out as well
            torch.testing.assert_close(made(*given).context, plain, rtol=1e-4, atol=1e-5)
            assert calls
            hook.remove()
            calls.clear()
        hook = listened.register_forward_hook(lambda module, given, made: 2 * made)
        twice = made(*given)
        torch.testing.assert_close(twice.context, expected(made, *given), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(twice.weights @ given[2], twice.context, rtol=1e-4, atol=1e-5)
        hook.remove()
        assert torch.equal(made(*given).context, plain)


def test_explain_says_why():
    made, given = attention("scaled_dot, large")
    made.score.register_forward_hook(lambda *_: None)
    explanation = regard.explain(*given, score=made.score)
    assert explanation.path == "explicit" and all(
        any("has hooks" in reason for reason in explanation.against[path]) for path in ("native", "fused")
    )


def test_a_record_listens_to_no_score():
    """It would send each call to the path that forms all weights: a hook on them is never called."""
    made, given = attention("scaled_dot, large")
    with regard.record(made) as seen:
        assert not is_hooked(made.score, made.normalizer) and is_hooked(made, recording=True)
        assert regard.explain(*given, score=made.score, normalizer=made.normalizer).path != "explicit"
        made(*given)
    assert len(seen[""]) == 1 and seen.names() == [""]


def test_every_kind_of_listening_is_known():
    score = regard.score("scaled_dot")
    assert not is_hooked(score, score.bind(), "a part that is no module")
    for kind in ("forward", "forward_pre", "full_backward", "full_backward_pre"):
        hook = getattr(score, f"register_{kind}_hook")(lambda *_: None)
        assert is_hooked(score)
        hook.remove()
        assert not is_hooked(score)
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert is_hooked(score)
    hook.remove()
    score.forward = lambda *_: None
    assert is_hooked(score)


def test_a_tap_counts_where_an_attention_is_given_alone():
    layer, noted = torch.nn.Linear(3, 2), []
    layer.register_forward_hook(RecordingHook(noted.append))
    assert not is_hooked(layer) and is_hooked(layer, recording=True)
    given = torch.ones(1, 3)
    assert layer(given) is noted[0]
    layer.register_forward_hook(lambda *_: None)
    assert is_hooked(layer)


def test_a_layer_gives_its_weights_where_a_call_would_compute_from_them_alone():
    class Same(torch.nn.Linear):
        def other(self):
            return 0

    class Other(torch.nn.Linear):
        def forward(self, x):
            return -super().forward(x)

    layer = torch.nn.Linear(3, 2)
    weight, bias = weights_of(layer, torch.nn.Linear, "weight", "bias")
    assert weight is layer.weight and bias is layer.bias
    assert is_exactly(layer, torch.nn.Conv1d, torch.nn.Linear) and not is_exactly(layer, torch.nn.Conv1d)
    assert weights_of(Same(3, 2), torch.nn.Linear, "weight", "bias") is None  # a subclass is called, whatever it does
    assert weights_of(torch.nn.Linear(3, 2, bias=False), torch.nn.Linear, "weight", "bias") is None
    assert weights_of(Other(3, 2), torch.nn.Linear, "weight") is None
    assert overrides(Other(3, 2), torch.nn.Linear, "forward") and not overrides(Same(3, 2), torch.nn.Linear, "forward")
    made = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
    assert weights_of(made, torch.nn.Linear, "weight") is None
    layer.forward = lambda x: x
    assert weights_of(layer, torch.nn.Linear, "weight") is None


# --- parts of heads that are replaced -------------------------------------------------------------------------------


def other_normalizer(heads):
    heads.normalizer = regard.normalizer("sparsemax")


def other_temperature(heads):
    heads.normalizer.temperature = 3.0


def learned_temperature(heads):
    del heads.normalizer.temperature
    heads.normalizer.temperature = torch.nn.Parameter(torch.tensor(3.0))


def other_score(heads):
    heads.score = regard.score("cosine", strength=3.0)


def hook(heads):
    heads.normalizer.register_forward_hook(lambda module, given, made: 2 * made)


@pytest.mark.parametrize("gradient", (True, False))
@pytest.mark.parametrize("size", (9, 71))
@pytest.mark.parametrize("change", (other_normalizer, other_temperature, learned_temperature, other_score, hook))
def test_other_parts_of_heads_count_from_the_next_call(change, size, gradient):
    torch.manual_seed(0)
    heads, x = SelfHeads(64, 4), torch.randn(3, size, 64, requires_grad=True)
    with torch.set_grad_enabled(gradient):
        before = heads.self_attend(x, AttentionContext(causal=True)).context
        assert heads.is_plain
        change(heads)
        assert not heads.is_plain
        query, keys = heads.project(x, None)
        keep = masks.causal().draw(Sizes(3, 4, size, size), x.device)
        ready = heads.score.prepare(keys.key)
        weights = heads.normalizer(heads.score(query, ready), keep)
        expected = heads.output((weights @ keys.value).transpose(1, 2).flatten(2))
        found = heads.self_attend(x, AttentionContext(causal=True))
        torch.testing.assert_close(found.context, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found.weights, weights, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(found.context, before, atol=1e-3)
