"""Gradients that are written out say that they have none of their own, whatever comes from above and is asked for."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from regard.kernels.autograd.once_differentiable import graph_anchor, once_differentiable
from regard.kernels.fallback.blocked import blocked
from regard.kernels.fallback.windowed import windowed
from regard.kernels.recurrent.recurrent import sequence
from regard.models.memory.sequences import build
from regard.models.memory.settings import DNCSettings, LSTMNSettings, NTMSettings
from tests.batched import batches_are_singles


class Product(torch.autograd.Function):
    """x · w, of which neither is saved as it came."""

    @staticmethod
    def forward(ctx, none, x, w):
        ctx.save_for_backward(none, x * 1, w * 1)
        return x * w

    @staticmethod
    @once_differentiable("this product; another has them")
    def backward(ctx, above):
        _, x, w = ctx.saved_tensors
        return None, above * w, above * x if ctx.needs_input_grad[2] else None


def product(x, w):
    return Product.apply(graph_anchor(x, w), x, w)


def leaves(*shapes):
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def of_blocks():
    given = leaves((2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 13), (1, 3, 5, 11))
    context = blocked(*given[:3], keep=None, bias=given[3], causal=False, scale=0.5, dropout=0.3)
    return context, given


def of_windows():
    given = leaves((2, 3, 71, 7), (2, 3, 71, 7), (2, 3, 71, 13))
    return windowed(*given, left=5, right=2, scale=0.5), given


def of_recurrence(states, gates):
    given = leaves((3, 5, 7), *[(3, 2)] * states, (gates, 7), (gates, 2), (gates,), (gates,))
    outputs, _ = sequence(given[0], tuple(given[1 : 1 + states]), tuple(given[1 + states :]), torch.tensor([2, 5, 3]))
    return outputs, given


def of_model(settings):
    """Of a model over whole sequences: its inputs and its weights, but for those of the layer behind the function."""
    torch.manual_seed(0)
    model = build(settings, 5, 2).double()
    (inputs,) = leaves((3, 7, 5))
    return model(inputs), [inputs, *(weight for name, weight in model.named_parameters() if "readout" not in name)]


FUNCTIONS = {
    "attention by blocks": of_blocks,
    "attention over a window": of_windows,
    "a GRU": lambda: of_recurrence(1, 6),
    "an LSTM": lambda: of_recurrence(2, 8),
    "an LSTMN": lambda: of_model(LSTMNSettings(kind="lstmn", width=3)),
    "a machine": lambda: of_model(NTMSettings(kind="ntm", width=5, slots=7, slot_dim=3)),
    "a computer": lambda: of_model(DNCSettings(kind="dnc", width=5, slots=7, slot_dim=3)),
}


@pytest.mark.parametrize("loss", [torch.sum, lambda made: made.square().sum()], ids=["sum", "square"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_second_derivative_is_refused_in_words(name, loss):
    made, given = FUNCTIONS[name]()
    found = torch.autograd.grad(loss(made), given, create_graph=True, allow_unused=True)
    bent = sum(one.square().sum() for one in found if one is not None)
    with pytest.raises(RuntimeError, match=r"has no second derivatives"):
        bent.backward()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_refused_whatever_it_is_asked_for(name):
    made, given = FUNCTIONS[name]()
    found = torch.autograd.grad(made.sum(), given, create_graph=True, allow_unused=True)
    reached = [one for one in found if one is not None]
    for asked in (one for one, gradient in zip(given, found, strict=True) if gradient is not None):
        with pytest.raises(RuntimeError, match="second derivatives"):
            torch.autograd.grad(reached[0].sum(), asked, retain_graph=True, allow_unused=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_with_a_graph_are_those_without(name):
    made, given = FUNCTIONS[name]()
    plain = torch.autograd.grad(made.square().sum(), given, retain_graph=True, allow_unused=True)
    graphed = torch.autograd.grad(made.square().sum(), given, create_graph=True, allow_unused=True)
    for one, other in zip(plain, graphed, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_of_gradients_are_those_one_by_one(name):
    made, given = FUNCTIONS[name]()
    reached = torch.autograd.grad(made.sum(), given, retain_graph=True, allow_unused=True)
    asked = [one for one, gradient in zip(given, reached, strict=True) if gradient is not None]
    batches_are_singles(made, asked, within=1e-13)
    above = torch.ones(2, *made.shape, dtype=made.dtype)
    found = torch.autograd.grad(made, asked, above, is_grads_batched=True, create_graph=True)
    with pytest.raises(RuntimeError, match="has no second derivatives"):
        sum(one.square().sum() for one in found).backward()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_another_class_are_refused_in_words(name):
    made, given = FUNCTIONS[name]()
    ones = torch.ones_like(made)
    with pytest.raises(RuntimeError, match="takes gradients that are plain tensors.*came as.*TwoTensor"):
        torch.autograd.grad(made, given, TwoTensor(ones, ones), allow_unused=True)


def test_the_words_name_what_has_them():
    x, w = leaves((3,), (3,))
    (found,) = torch.autograd.grad(product(x, w).sum(), x, create_graph=True)
    assert torch.equal(found, w)
    with pytest.raises(RuntimeError, match=r"^this product has no second derivatives; another has them$"):
        found.sum().backward()


def test_what_needs_no_gradient_has_none():
    x, w = leaves((3,), (3,))
    (found,) = torch.autograd.grad(product(x, w.detach()).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(found.sum(), x)
    assert not torch.autograd.grad(product(x, w).sum(), x)[0].requires_grad


def test_saved_tensors_are_unpacked_once():
    """A checkpoint makes them again for one question alone."""
    x, w = leaves((3, 5), (3, 5))
    made = checkpoint(product, x, w, use_reentrant=False)
    to_x, to_w = torch.autograd.grad(made.sum(), (x, w), create_graph=True)
    assert torch.equal(to_x, w) and torch.equal(to_w, x)
    with pytest.raises(RuntimeError, match="this product has no second derivatives; another has them"):
        to_x.sum().backward()
