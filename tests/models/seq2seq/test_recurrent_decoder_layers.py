"""A decoder that loops computes with the weights of its layers only while no layer has hooks or is replaced."""

import types

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.data.translation.batches import TextBatches
from regard.layers.objective import objective
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.settings import RecurrentSettings


@pytest.fixture
def loss():
    """A small model with input feeding, and its loss; the longest target has 4 steps."""
    settings = RecurrentSettings(
        cell="gru", embedding_dim=5, encoder_dim=3, attention_dim=7, readout_dim=11, dropout=0.0, input_feeding=True,
        attention="additive",
    )  # fmt: skip
    torch.manual_seed(0)
    model = RecurrentTranslator(settings, 31, 29)
    batch = TextBatches([[5, 6, 7], [8, 9]], [[5, 6], [7, 8, 9]], tokens=100).load([0, 1])
    return model, lambda: model.objective(batch).total


class Shifted(nn.Module):
    """A layer in the place of another, whose weights it shows, as adapters do."""

    def __init__(self, base):
        super().__init__()
        self.base, self.weight, self.bias = base, base.weight, base.bias

    def forward(self, x):
        return self.base(x) + 3


def test_another_layer_is_called(loss):
    model, total = loss
    before = total()
    model.decoder.readout = Shifted(model.decoder.readout)
    after = total()
    with torch.no_grad():
        assert_close(after.detach(), total())
    assert abs(float((after - before).detach())) > 1e-2


@pytest.mark.parametrize("name", ["readout", "recurrence.each.0"])
@pytest.mark.parametrize("way", ["hook", "before", "back", "forward"])
def test_hooks_are_called(loss, name, way):
    """Once for each of the 4 steps."""
    model, total = loss
    layer, calls = model.decoder.get_submodule(name), []
    if way == "hook":
        layer.register_forward_hook(lambda *given: calls.append(1))
    elif way == "before":
        layer.register_forward_pre_hook(lambda *given: calls.append(1))
    elif way == "back":
        layer.register_full_backward_hook(lambda *given: calls.append(1))
    else:
        usual = layer.forward
        layer.forward = lambda *given: (calls.append(1), usual(*given))[1]
    total().backward()
    assert len(calls) == 4


@pytest.mark.parametrize("name", ["readout", "recurrence.each.0"])
def test_a_layer_whose_weights_are_made_at_each_call(loss, name):
    """Gradients are those of calls of it; a parametrization makes another tensor each time."""
    model, total = loss
    layer = model.decoder.get_submodule(name)
    weight = "weight" if name == "readout" else "weight_hh"
    nn.utils.parametrizations.weight_norm(layer, weight)
    every = list(model.parameters())
    found = torch.autograd.grad(total(), every)
    layer.register_forward_hook(lambda *given: None)
    wanted = torch.autograd.grad(total(), every)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-6)


def halved(self, features):
    return type(self).vocabulary(self, features) / 2


class Halved(RecurrentTranslator):
    def vocabulary(self, features):
        return super().vocabulary(features) / 2


def subclass(model):
    model.__class__ = Halved


def subclass_of_the_decoder(model):
    decoder = type(model.decoder)
    model.decoder.__class__ = type("Own", (decoder,), {"vocabulary": lambda self, x: decoder.vocabulary(self, x) / 2})


def instance(model):
    model.vocabulary = types.MethodType(halved, model)


def instance_of_the_decoder(model):
    model.decoder.vocabulary = types.MethodType(halved, model.decoder)


@pytest.mark.parametrize("change", [subclass, subclass_of_the_decoder, instance, instance_of_the_decoder])
def test_other_logits_are_those_that_are_learned(loss, change):
    model, total = loss
    before = total()
    change(model)
    batch = TextBatches([[5, 6, 7], [8, 9]], [[5, 6], [7, 8, 9]], tokens=100).load([0, 1])
    features, targets = model.features(batch)
    wanted = objective(model.vocabulary(features), targets).total
    assert_close(total(), wanted)
    assert not torch.allclose(wanted, before)
