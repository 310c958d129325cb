"""Two layers with GELU between them, in one function with its gradients, beside torch's own calls."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.testing._internal.two_tensor import TwoTensor

from regard.kernels.native import compiler
from regard.kernels.transformer import feed_forward
from regard.layers.transformer.feed_forward import FeedForward
from tests.native import needs_compiler
from tests.rounding import assert_close_to_rounding

pytestmark = needs_compiler


def exact(x, one, bias, other, other_bias):
    """The formula in float64."""
    given = [None if tensor is None else tensor.double() for tensor in (one, bias, other, other_bias)]
    return F.linear(F.gelu(F.linear(x.double(), given[0], given[1])), given[2], given[3])


def weights(dim, hidden, bias):
    torch.manual_seed(2)
    shapes = [(hidden, dim), (hidden,) if bias else None, (dim, hidden), (dim,) if bias else None]
    return [None if shape is None else torch.randn(shape, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lead", [(), (1,), (11,), (3, 7), (2, 0), (5, 3, 2)])
def test_it_is_the_formula_and_its_gradients(bias, lead):
    given = weights(13, 37, bias)
    x = torch.randn(*lead, 13, requires_grad=True)
    out = feed_forward.gelu_network(x, *given)
    expected = exact(x, *given)
    above = torch.randn_like(out)
    asked = [tensor for tensor in (x, *given) if tensor is not None]
    found = torch.autograd.grad(out, asked, above)
    wanted = torch.autograd.grad(expected, asked, above.double())
    assert_close(out.double(), expected, rtol=1e-5, atol=5e-5)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("asks", range(5))
def test_a_single_gradient(asks):
    given = [torch.randn(4, 13), *weights(13, 37, True)]
    alone = [tensor.detach().requires_grad_(number == asks) for number, tensor in enumerate(given)]
    (found,) = torch.autograd.grad(feed_forward.gelu_network(*alone).square().sum(), alone[asks])
    (wanted,) = torch.autograd.grad(exact(*alone).square().sum(), alone[asks])
    assert_close(found, wanted, rtol=1e-4, atol=1e-2)


def test_gelu_and_its_slope_over_all_numbers():
    """By widths of 1: nothing but GELU, within 4e-7; its slope within 3e-7; what is no number stays none."""
    points = torch.cat([torch.linspace(-15, 15, 60013), torch.tensor([0.0, -0.0, 1e30, -1e30, 3e38, -3e38, torch.nan])])
    x = points.unsqueeze(-1).requires_grad_()
    unit = torch.ones(1, 1)
    out = feed_forward.gelu_network(x, unit, None, unit, None)
    (slope,) = torch.autograd.grad(out.sum(), x)
    exactly = x.detach().double().requires_grad_()
    expected = F.gelu(exactly)
    (steep,) = torch.autograd.grad(expected.sum(), exactly)
    assert_close(out.double(), expected, rtol=1e-6, atol=4e-7, equal_nan=True)
    assert_close(slope.double()[:-5], steep[:-5], rtol=0, atol=3e-7)
    assert slope[-5:, 0].tolist()[:4] == [1, 0, 1, 0]
    assert slope[-1].isnan().all() and out[-1].isnan().all()


def test_gradients_have_gradients():
    given = weights(5, 7, True)
    x = torch.randn(3, 5, requires_grad=True)

    def twice(function):
        (slope,) = torch.autograd.grad(function(x, *given).square().sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [x, given[0], given[2]])

    for one, other in zip(twice(feed_forward.gelu_network), twice(exact), strict=True):
        assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


def test_strides_and_threads_change_nothing_but_rounding():
    given = weights(13, 4099, True)
    x = torch.randn(13, 257).t().requires_grad_()
    one = feed_forward.gelu_network(x, *given)
    straight = feed_forward.gelu_network(x.detach().contiguous(), *given)
    torch.set_num_threads(3)
    try:
        several = feed_forward.gelu_network(x, *given)
    finally:
        torch.set_num_threads(1)
    # The products are torch's, over 13 and over 4,099 numbers.
    assert_close_to_rounding([straight, several], [one, one], 13 + 4099)


def test_the_layer_takes_it_where_it_can(monkeypatch):
    """In training, from some size on, without hooks; elsewhere and without a compiler torch's own calls serve."""

    def taken(layer, x):
        return type(layer(x).grad_fn).__name__.startswith("_Network")

    x = torch.randn(64, 64)
    assert taken(FeedForward(64, 256), x)
    assert not taken(FeedForward(64, 256).double(), x.double())
    assert not taken(FeedForward(64, 256, "relu"), x)
    assert not taken(FeedForward(64, 256), x[:8])
    hooked = FeedForward(64, 256)
    seen = []
    hooked.inputs.register_forward_hook(lambda module, given, out: seen.append(out.shape))
    assert not taken(hooked, x) and seen == [(64, 256)]
    with torch.no_grad():
        assert FeedForward(64, 256)(x).grad_fn is None
    other = FeedForward(64, 256)
    other.output = nn.Sequential(other.output)
    assert not taken(other, x)
    monkeypatch.setattr(compiler, "library", lambda name: None)
    assert not taken(FeedForward(64, 256), x)


def test_what_stands_in_a_layers_place_is_called():
    """Another forward of one module, as adapters set it, and hooks on all modules: on both sides of training."""
    x, layer = torch.randn(64, 64), FeedForward(64, 256)
    forward = layer.inputs.forward
    layer.inputs.forward = lambda rows: 2 * forward(rows)
    expected = F.linear(F.gelu(2 * F.linear(x, *layer.inputs.parameters())), *layer.output.parameters())
    assert torch.equal(layer(x), expected)
    calls = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: calls.append(module))
    try:
        other = FeedForward(64, 256)
        other(x)
    finally:
        handle.remove()
    assert calls == [other.inputs, other.output, other]


def test_wrapped_weights_are_torchs():
    """A class that torch hands its operations to has no numbers of its own."""
    layer, x = FeedForward(13, 67), torch.randn(1009, 13)
    wanted = layer(x)
    for linear in (layer.inputs, layer.output):
        for name, weight in list(linear.named_parameters()):
            setattr(linear, name, nn.Parameter(TwoTensor(weight.detach(), weight.detach().clone())))
            assert_close(layer(x).a, wanted)
            setattr(linear, name, nn.Parameter(weight.detach()))
    assert_close(layer(x), wanted)
