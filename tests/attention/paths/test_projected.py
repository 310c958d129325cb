"""The projected path: what a layer of self-attention takes in training, beside the same call by formed weights."""

import pytest
import torch

import regard
from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.attention.paths.projected import Projected
from tests.native import needs_compiler
from tests.paths import only


@needs_compiler
@pytest.mark.parametrize("causal", (True, False))
@pytest.mark.parametrize("key_heads", (4, 2))
def test_temperature_and_grouped_heads_are_those_of_formed_weights(monkeypatch, key_heads, causal):
    torch.manual_seed(0)
    normalizer = regard.normalizer("softmax", temperature=0.37)
    heads, x = SelfHeads(64, 4, key_heads=key_heads, normalizer=normalizer), torch.randn(3, 71, 64, requires_grad=True)
    wanted, run, taken = [x, *heads.parameters()], Projected.run, []
    monkeypatch.setattr(Projected, "run", lambda *given: taken.append(1) or run(*given))

    def made():
        attended = heads.self_attend(x, AttentionContext(causal=causal))
        return attended.context, attended.weights, *torch.autograd.grad(attended.context.sin().sum(), wanted)

    ours = made()
    assert taken == [1]
    with only("explicit"):
        theirs = made()
    assert taken == [1]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
