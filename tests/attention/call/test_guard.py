"""Queries that see nothing may hold anything, in eager calls and in traced ones, which cannot look at their numbers."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import regard
from regard import masks
from tests.attention.registered_parts import SCORES, module, tensors
from tests.plain import run_plain

QUERIES, KEYS = 5, 7
SEES = torch.rand(2, QUERIES, KEYS, generator=torch.Generator().manual_seed(3)) > 0.4
SEES[0, 2], SEES[1, 0], SEES[:, :, 4] = False, False, False
BAD = (3e38, torch.nan, torch.inf)


def filled(score, fill, heads=None):
    sizes = {"queries": QUERIES, "keys": KEYS, "heads": heads, "key_heads": heads and heads // 2}
    query, key, value = (one.detach() for one in tensors(score, dtype=torch.float32, **sizes))
    unreadable = ~SEES.any(-1) if heads is None else ~SEES.any(-1).unsqueeze(1).expand(-1, heads, -1)
    query[unreadable] = fill
    return [one.requires_grad_() for one in (query, key, value)]


def kept(heads):
    return masks.keep(SEES if heads is None else SEES.unsqueeze(1))


def found(call, inputs, parameters=()):
    """Context, weights and all gradients."""
    context, weights = call(*inputs)
    total = context.sin().sum() + weights.square().sum()
    slopes = torch.autograd.grad(total, [*inputs, *parameters], allow_unused=True)
    return [context, weights, *(one for one in slopes if one is not None)]


def check(score, call, heads=None, parameters=(), bad=BAD):
    clean = found(call, filled(score, 0.0, heads), parameters)
    assert not clean[2][filled(score, torch.inf, heads)[0].isinf()].any()  # what comes to them is 0
    for fill in bad:
        for one, other in zip(found(call, filled(score, fill, heads), parameters), clean, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def calls(made, heads=None, **options):
    def call(*given):
        attended = regard.attend(*given, score=made, mask=kept(heads), weights=True, **options)
        return attended.context, attended.weights

    return call


@pytest.mark.parametrize("heads", (None, 4))
@pytest.mark.parametrize("normalizer", ("softmax", "sparsemax"))
@pytest.mark.parametrize("score", [name for name in SCORES if name != "location_aware"])
def test_eager_calls(score, normalizer, heads):
    made = module(score, torch.float32)
    check(score, calls(made, heads, normalizer=normalizer), heads, tuple(made.parameters()))


@pytest.mark.parametrize("autocast", (False, True))
@pytest.mark.parametrize("score", ("general", "general_low_rank", "additive", "location"))
def test_what_is_moderate_until_it_is_multiplied_in_float16(score, autocast):
    """60,000 is a number of float16, and its products with parameters are not: they came back as NaN."""
    made = module(score, torch.float32 if autocast else torch.float16)

    def found(fill):
        query, key, value = (one.detach() for one in filled(score, fill))
        key, value = (torch.where(SEES.any(-2).unsqueeze(-1), one, fill) for one in (key, value))
        given = [one.to(torch.float32 if autocast else torch.float16).requires_grad_() for one in (query, key, value)]
        with torch.autocast("cpu", torch.float16, enabled=autocast):
            context = calls(made)(*given)[0]
        return [context, *torch.autograd.grad(context.float().sum(), [*given, *made.parameters()], allow_unused=True)]

    for fill in (60_000.0, -60_000.0):
        for one, other in zip(found(fill), found(0.0), strict=True):
            if other is not None:
                torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("score", ("scaled_dot", "general", "cosine", "additive"))
def test_graphs_of_torchs_operations(score):
    made = module(score, torch.float32)
    graph = make_fx(calls(made, 4))(*filled(score, 0.0, 4))
    check(score, graph, 4)


def test_compiled_and_exported_calls():
    run_plain("""
        import torch
        from tests.attention.call.test_guard import calls, check, filled, module

        class Whole(torch.nn.Module):
            def __init__(self, call):
                super().__init__()
                self.call = call

            def forward(self, *given):
                return self.call(*given)

        for score, heads in (("scaled_dot", 4), ("general", None)):
            call = calls(module(score, torch.float32), heads)
            if heads:
                check(score, torch.compile(call, fullgraph=True, backend="aot_eager"), heads)
            check(score, torch.export.export(Whole(call), tuple(filled(score, 0.0, heads))).module(), heads)
    """)
