"""Attention of a sequence to itself from one product of its three parts, beside the formula in float64."""

import pytest
import torch
from torch.testing import assert_close

from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.attention.parts.position_factory import position
from regard.kernels.native import compiler
from regard.kernels.transformer import self_attention
from tests.native import needs_compiler

pytestmark = needs_compiler


def explicit(made, heads, key_heads, causal, scale):
    """By all weights."""
    batch, size, together = made.shape
    width = together // (heads + 2 * key_heads)
    query, key, value = made.view(batch, size, -1, width).split((heads, key_heads, key_heads), dim=2)
    key, value = (one.repeat_interleave(heads // key_heads, dim=2) for one in (key, value))
    scores = torch.einsum("bqhw,bkhw->bhqk", query, key) * scale
    if causal:
        scores = scores.masked_fill(~torch.ones(size, size, dtype=torch.bool).tril(), -torch.inf)
    return torch.einsum("bhqk,bkhw->bqhw", scores.softmax(-1), value).flatten(2)


def made_of(batch, size, heads, key_heads, width):
    torch.manual_seed(5)
    return torch.randn(batch, size, (heads + 2 * key_heads) * width, requires_grad=True)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", [1, 2, 11, 12, 13, 31, 47, 53, 97, 131])
@pytest.mark.parametrize(("heads", "key_heads", "width"), [(1, 1, 16), (2, 2, 32), (6, 3, 16), (5, 1, 48), (1, 1, 80)])
def test_it_is_the_formula_and_its_gradient(heads, key_heads, width, size, causal):
    made = made_of(2, size, heads, key_heads, width)
    exact = made.detach().double().requires_grad_()
    out = self_attention.attention(made, heads, key_heads, causal=causal, scale=width**-0.5)
    expected = explicit(exact, heads, key_heads, causal, width**-0.5)
    above = torch.randn_like(out)
    (slope,) = torch.autograd.grad(out, made, above)
    (steep,) = torch.autograd.grad(expected, exact, above.double())
    assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    assert_close(slope.double(), steep, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("scale", [0.0, -0.3, 40.0])
def test_any_scale(scale):
    """Scores of some hundreds, whose exponentials would be beyond float32."""
    made = made_of(1, 37, 2, 2, 16)
    exact = made.detach().double().requires_grad_()
    out = self_attention.attention(made, 2, 2, causal=True, scale=scale)
    expected = explicit(exact, 2, 2, True, scale)
    (slope,), (steep,) = (torch.autograd.grad(one.sin().sum(), of) for one, of in ((out, made), (expected, exact)))
    assert_close(out.double(), expected, rtol=1e-4, atol=2e-4)
    assert_close(slope.double(), steep, rtol=1e-3, atol=1e-3 * float(steep.abs().max()))


def test_strides_and_threads_change_nothing():
    made = made_of(3, 71, 4, 2, 16)
    apart = torch.empty(71, 3, made.shape[2]).transpose(0, 1)
    apart.data.copy_(made.detach())
    apart.requires_grad_()

    def both(made):
        out = self_attention.attention(made, 4, 2, causal=True, scale=0.25)
        return out, *torch.autograd.grad(out.transpose(1, 2), made, out.detach().sin().transpose(1, 2))

    wanted = both(made)
    torch.set_num_threads(3)
    try:
        several = both(apart)
    finally:
        torch.set_num_threads(1)
    for one, other, third in zip(wanted, both(apart), several, strict=True):
        assert torch.equal(one, other) and torch.equal(one, third)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_with_those_that_see_it(bad):
    """A value of one item and head is seen by its later positions alone."""
    made = made_of(2, 29, 2, 2, 16).detach()
    made[1, 24, 5 * 16 + 3] = bad  # of the second head's values; a strip of queries begins there
    made.requires_grad_()
    out = self_attention.attention(made, 2, 2, causal=True, scale=0.25)
    seen = torch.zeros(2, 29, 32, dtype=torch.bool)
    seen[1, 24:, 16 + 3] = True
    assert torch.equal(~out.isfinite(), seen)
    (slope,) = torch.autograd.grad(out[0].sum() + out[1, :, :16].sum(), made)
    assert slope[0].isfinite().all()


def test_a_query_whose_scores_are_all_minus_infinity_reads_0():
    """As in the other loop. torch's own softmax has no number for it."""
    made = torch.ones(1, 13, 48)
    made[0, 7, :16] = -torch.inf
    made.requires_grad_()
    out = self_attention.attention(made, 1, 1, causal=True, scale=0.25)
    assert torch.equal(out[0, 7], torch.zeros(16))
    assert torch.equal(out[0, [0, 6, 8, 12]], torch.ones(4, 16))


def test_gradients_have_gradients_and_come_in_batches():
    made = made_of(1, 7, 2, 1, 16)
    exact = made.detach().double().requires_grad_()

    def twice(out, made):
        (slope,) = torch.autograd.grad(out.square().sum(), made, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), made)[0]

    out, expected = self_attention.attention(made, 2, 1, causal=True, scale=0.25), explicit(exact, 2, 1, True, 0.25)
    above = torch.randn(3, *out.shape)
    many = torch.autograd.grad(out, made, above, is_grads_batched=True, retain_graph=True)[0]
    each = [torch.autograd.grad(expected, exact, one.double(), retain_graph=True)[0] for one in above]
    assert_close(many.double(), torch.stack(each), rtol=1e-5, atol=2e-5)
    assert_close(twice(out, made).double(), twice(expected, exact), rtol=1e-4, atol=1e-3)


# --- in the module --------------------------------------------------------------------------------------------------


def taken(heads, x, shared=None):
    context = heads.self_attend(x, AttentionContext(causal=True) if shared is None else shared).context
    functions, seen = [context.grad_fn], set()
    while functions:
        function = functions.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if type(function).__name__.startswith("_AttentionBackward"):
            return True
        functions += [before for before, _ in function.next_functions]
    return False


@pytest.mark.parametrize("causal", [True, False])
def test_the_module_gives_what_it_gives_by_parts(causal):
    torch.manual_seed(1)
    heads, x, shared = (
        SelfHeads(64, 4, key_heads=2),
        torch.randn(3, 67, 64, requires_grad=True),
        AttentionContext(causal=causal),
    )
    assert taken(heads, x, shared)
    one, (query, keys) = heads.self_attend(x, shared), heads.project(x, None)
    other = heads(query, keys, shared)
    assert_close(one.context, other.context, rtol=1e-5, atol=1e-6)
    assert_close(one.weights, other.weights, rtol=1e-5, atol=1e-7)
    asked = [x, *heads.parameters()]
    both = [torch.autograd.grad(each.context.sin().sum() + each.weights[..., 0].sum(), asked) for each in (one, other)]
    for mine, theirs in zip(*both, strict=True):
        assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_other_calls_go_by_parts(monkeypatch):
    """Masks, biases, turned positions, dropout, other types, mapped calls, no gradient, no compiler."""
    x, heads = torch.randn(3, 67, 64, requires_grad=True), SelfHeads(64, 4)
    assert taken(heads, x)
    keep = torch.ones(1, 1, 1, 67, dtype=torch.bool)
    rotation = position("rotary", dim=16, convention="half").rotation_at(torch.arange(67)[None])
    for shared in (
        AttentionContext(keep),
        AttentionContext(bias=torch.zeros(1, 4, 67, 67)),
        AttentionContext(causal=True, rotation=rotation),
    ):
        assert not taken(heads, x, shared)
    assert not taken(heads, x[:1, :13])
    assert not taken(SelfHeads(64, 8), x)  # heads of 8
    assert not taken(SelfHeads(64, 4).double(), x.double())
    assert not taken(SelfHeads(64, 4, dropout=0.5), x) and taken(SelfHeads(64, 4, dropout=0.5).eval(), x)
    assert not taken(SelfHeads(64, 4, score="cosine"), x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not taken(heads, x)
    with torch.no_grad():
        assert heads.self_attend(x, AttentionContext()).context.grad_fn is None
    calls, hooked = [], SelfHeads(64, 4)
    hooked.register_forward_hook(lambda module, given, out: calls.append(given[0].shape))
    assert taken(hooked, x) and calls == [(3, 4, 67, 16)]
    inside = SelfHeads(64, 4)
    inside.inputs.register_forward_hook(lambda module, given, out: 2 * out)
    doubled = inside.self_attend(x, AttentionContext()).context
    query, keys = inside.project(x, None)
    assert_close(doubled, inside(query, keys, AttentionContext()).context, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(compiler, "library", lambda name: None)
    assert not taken(heads, x)
