"""Models of sequences that read a whole one by torch's own calls: a `step` or a `start` of one's own is obeyed.

And all models of sequences begin where their weights are no parameters.
"""

import copy

import pytest
import torch
from torch import nn

from regard.models.memory.sequences import build
from regard.models.memory.settings import (
    DNCSettings,
    FixedSettings,
    KeyValueSettings,
    LSTMNSettings,
    LSTMSettings,
    NTMSettings,
)
from regard.models.text import reader
from regard.models.transformer.settings import TransformerSequenceSettings
from tests.models.at_once import BATCH, INPUTS, OUTPUTS, TIME, given, stepped

AT_ONCE = {
    "lstm": LSTMSettings(width=5, layers=2),
    "fixed": FixedSettings(width=5),
    "key_value": KeyValueSettings(width=5, attention_dim=3),
    "transformer": TransformerSequenceSettings(dim=8, heads=2, layers=2),
}
ALL = AT_ONCE | {
    "ntm": NTMSettings(width=5, slots=7, slot_dim=3),
    "ntm, feed-forward": NTMSettings(width=5, slots=7, slot_dim=3, controller="feed_forward"),
    "dnc": DNCSettings(width=5, slots=7, slot_dim=3),
    "lstmn": LSTMNSettings(width=5, attention=3, layers=2),
}
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def made(kind):
    torch.manual_seed(0)
    return build(ALL[kind], INPUTS, OUTPUTS).double()


def doubled(plain):
    def step(self, state, inputs):
        output_now = plain(self, state, inputs)
        return output_now._replace(output=2 * output_now.output)

    return step


def of_half(plain):
    return lambda self, state, inputs: plain(self, state, inputs / 2)


def begun(plain):
    """One input was read before the first."""

    def start(self, batch):
        first = torch.ones(batch, INPUTS, dtype=torch.float64)
        first[:, -1] = 0  # no question yet
        return self.step(plain(self, batch), first).state

    return start


METHODS = [("step", doubled), ("step", of_half), ("start", begun)]


@pytest.mark.parametrize(("method", "change"), METHODS, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.parametrize("kind", AT_ONCE)
def test_a_method_that_a_subclass_overrides_is_obeyed(kind, method, change):
    model = made(kind)
    before = model(given())
    model.__class__ = type("Own", (type(model),), {method: change(getattr(type(model), method))})
    twin = copy.deepcopy(model)
    found, wanted = model(given()), stepped(twin, given())
    torch.testing.assert_close(found, wanted, **CLOSE)
    assert not torch.allclose(found, before)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, **CLOSE)
    assert model(given()[:, :0]).shape == (BATCH, 0, OUTPUTS) and model(given()[:0]).shape == (0, TIME, OUTPUTS)


@pytest.mark.parametrize("kind", AT_ONCE)
def test_a_step_put_on_the_model_itself_is_called(kind):
    model, calls = made(kind), []
    before, plain = model(given()), model.step
    model.step = lambda state, inputs: calls.append(1) or plain(state, inputs)
    torch.testing.assert_close(model(given()), before, **CLOSE)
    assert len(calls) == TIME


@pytest.mark.parametrize("kind", AT_ONCE)
def test_a_subclass_that_does_the_same_gives_the_same_step_by_step(kind):
    """What it does is not asked: it is called, right and slower."""
    model, calls = made(kind), []
    before, plain = model(given()), type(model).step
    step = lambda self, state, inputs: calls.append(1) or plain(self, state, inputs)  # noqa: E731
    model.__class__ = type("Own", (type(model),), {"extra_repr": lambda self: "own", "step": step})
    torch.testing.assert_close(model(given()), before, **CLOSE)
    assert len(calls) == TIME


# --- readers of text -------------------------------------------------------------------------------------------------


def small_reader():
    torch.manual_seed(0)
    return reader.LSTMReader(LSTMSettings(width=5, layers=2), INPUTS).double()


def one_by_one(read, inputs, state):
    outputs = []
    for now in inputs.unbind(1):
        output, state, _ = read.step(state, now)
        outputs.append(output)
    return torch.stack(outputs, 1), state


def doubled_all(plain):
    def forward(self, inputs, state):
        outputs, state = plain(self, inputs, state)
        return 2 * outputs, state

    return forward


CHANGES = [{"step": doubled}, {"forward": doubled_all}, {"step": of_half, "forward": doubled_all}]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: " and ".join(changes))
def test_a_reader_obeys_a_step_and_a_forward_of_ones_own(changes):
    """Where one of them is overridden the other gives its numbers; where both are, each is what it is."""
    read = small_reader()
    before, _ = read(given(), read.start(BATCH))
    kind = type(read)
    read.__class__ = type("Own", (kind,), {name: change(getattr(kind, name)) for name, change in changes.items()})
    whole, state = read(given(), read.start(BATCH))
    steps, after = one_by_one(read, given(), read.start(BATCH))
    factor = 2 if len(changes) == 2 else 1  # the base's forward goes by the steps, and that of one's own doubles them
    torch.testing.assert_close(whole, factor * steps, **CLOSE)
    torch.testing.assert_close(state, after, **CLOSE)
    assert not torch.allclose(whole, before)


# --- weights that are no parameters ----------------------------------------------------------------------------------


def as_buffers(module, name, weight):
    module.register_buffer(name, weight.detach())


def as_attributes(module, name, weight):
    vars(module)[name] = weight.detach()


@pytest.mark.parametrize("way", [as_buffers, as_attributes])
@pytest.mark.parametrize("kind", ALL)
def test_a_model_without_parameters_begins_and_reads(kind, way):
    model = made(kind)
    wanted = model(given())
    for module in model.modules():
        for name, weight in list(module._parameters.items()):
            del module._parameters[name]
            if weight is not None:
                way(module, name, weight)
    assert not list(model.parameters())
    state = model.start(BATCH)
    numbers = [leaf for leaf in torch.utils._pytree.tree_leaves(state) if leaf.is_floating_point()]
    assert all(leaf.dtype is torch.float64 for leaf in numbers)
    torch.testing.assert_close(model(given()), wanted, **CLOSE)
    torch.testing.assert_close(stepped(model, given()), wanted, **CLOSE)


def test_states_are_made_like_the_first_weight_in_floating_point():
    """Of a frozen half, on a device of its own; and by torch's defaults where there is no such weight."""
    read = small_reader().to("meta", torch.bfloat16)
    assert all(part.is_meta and part.dtype is torch.bfloat16 for part in read.start(BATCH))
    read.recurrence = nn.Identity()
    read.whole = nn.Parameter(torch.zeros(3, dtype=torch.long), requires_grad=False)
    assert all(part.dtype is torch.float32 and part.device.type == "cpu" for part in read.start(BATCH))
    read.register_buffer("frozen", torch.zeros(3, dtype=torch.float64))
    assert all(part.dtype is torch.float64 for part in read.start(BATCH))


class Packed(nn.Module):
    """A layer whose weights are no tensors of its own, as quantized layers hold them."""

    def __init__(self, layer):
        super().__init__()
        self.call = layer.forward

    def forward(self, *given):
        return self.call(*given)


@pytest.mark.parametrize("kind", ["lstm", "fixed", "transformer", "ntm", "dnc"])
def test_a_model_of_packed_layers_begins_and_reads(kind):
    model = made(kind).float()
    wanted = model(given().float())
    for holder in list(model.modules()):
        for name, layer in holder.named_children():
            if isinstance(layer, nn.Linear | nn.LSTMCell):
                setattr(holder, name, Packed(layer))
    torch.testing.assert_close(model(given().float()), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(stepped(model, given().float()), wanted, rtol=1e-5, atol=1e-6)


class Echo(nn.Module):
    """A controller of one's own: what a machine asks of one is to begin and to be called."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(INPUTS + 3, 5, dtype=torch.float64)  # an input, and what one head has read

    def start(self, batch):
        return ()

    def forward(self, inputs, state):
        return self.layer(inputs).tanh(), state


@pytest.mark.parametrize("kind", ["ntm", "dnc"])
def test_a_controller_of_ones_own_is_asked_for_no_more(kind):
    model = made(kind)
    model.controller = Echo()
    torch.testing.assert_close(model(given()), stepped(model, given()), **CLOSE)
