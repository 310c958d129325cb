"""Inputs of one function that were made from each other, or are one tensor: each way back is counted once."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.attention.modules.heads import AttentionContext, SelfHeads
from regard.attention.modules.linear import linear_attention
from regard.attention.parts.functional import additive_pairs
from regard.kernels.local import softmax as local_softmax
from regard.kernels.transformer import feed_forward, norm
from regard.layers.transformer.block import Block
from tests.native import needs_compiler


def agree(function, *given):
    """Gradients that may be differentiated are those that may not."""
    made = function(*given)
    above = torch.randn(made.shape, generator=torch.Generator().manual_seed(1), dtype=made.dtype)
    plain = torch.autograd.grad(function(*given), given, above)
    again = torch.autograd.grad(made, given, above, create_graph=True)
    for one, other in zip(again, plain, strict=True):
        assert one.requires_grad
        assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))


def leaf(*shape, kind=torch.float32):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=kind)
    return made.mul_(0.5).requires_grad_()


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_block_with_norms_in_the_loop(order):
    torch.manual_seed(0)
    block = Block(SelfHeads(64, 4), nn.Sequential(nn.Linear(64, 64), nn.Tanh()), lambda: nn.LayerNorm(64), order=order)
    agree(lambda x, *_: block(x, AttentionContext(causal=True))[0], leaf(3, 53, 64), *block.parameters())


@needs_compiler
@pytest.mark.parametrize("more", [lambda x: x, torch.sin], ids=["same", "made"])
def test_a_sum_and_its_norm(more, monkeypatch):
    monkeypatch.setattr(norm, "_LEAST", 1)
    layer = nn.LayerNorm(11)
    nn.init.normal_(layer.weight)

    def both(x, *_):
        summed, normed = norm.sum_and_norm(layer, x, more(x))
        return summed.cos() + normed

    agree(both, leaf(5, 11), layer.weight)


@needs_compiler
@pytest.mark.parametrize("bias", [True, False])
def test_a_norm_of_what_needs_no_gradient(bias, monkeypatch):
    monkeypatch.setattr(norm, "_LEAST", 1)
    layer = nn.LayerNorm(11, bias=bias)

    def both(*_):
        summed, normed = norm.sum_and_norm(layer, leaf(5, 11).detach(), leaf(5, 11).detach())
        return normed.sin() * summed

    agree(both, *layer.parameters())


@pytest.mark.parametrize("key", [lambda x: x, lambda x: x.flip(-1) * x], ids=["same", "made"])
def test_additive_scores(key):
    agree(lambda x, vector: additive_pairs(x, key(x), vector), leaf(2, 67, 32), leaf(32))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("other", [lambda x: x, lambda x: x.flip(-1) * x], ids=["same", "made"])
def test_linear_attention(other, causal):
    agree(lambda x: linear_attention(x, other(x), other(x), causal=causal), leaf(2, 2, 131, 16))


@needs_compiler
def test_a_network_whose_layers_share_a_matrix():
    layer = leaf(32, 32)
    given = leaf(5, 211, 32)
    assert feed_forward.serves(given, 32, layer)
    agree(lambda x, weight: feed_forward.gelu_network(x, weight, None, weight.flip(0), None), given, layer)


@needs_compiler
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_windows_around_predicted_centers(kind):
    lengths = torch.tensor([23, 11])
    window = local_softmax.Window(2.5, 8, 1.25, 0.7)

    def read(x, key, vector):
        center = local_softmax.predict(x @ key[0, :8].t(), vector, lengths)
        attended = local_softmax.window_attention(x, key, key, center, lengths, window)
        return attended.context

    agree(read, leaf(2, 7, 16, kind=kind), leaf(2, 23, 16, kind=kind), leaf(1, 8, kind=kind))
