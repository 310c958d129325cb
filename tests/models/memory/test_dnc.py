"""The differentiable neural computer: its step against loops, whole sequences against steps, and its promises."""

import copy

import pytest
import torch
from torch.testing import assert_close
from torch.utils import _pytree as pytree

import regard
from regard.layers.sequence import SequenceModel
from regard.models.memory import dnc
from regard.models.memory.sequences import build
from regard.models.memory.settings import DNCSettings
from tests.reference import dnc as plain


def made(inputs=3, outputs=2, dtype=torch.float64, **choices):
    torch.manual_seed(0)
    settings = DNCSettings(**{"kind": "dnc", "width": 7, "slots": 5, "slot_dim": 3, "read_heads": 2, **choices})
    model = build(settings, inputs, outputs).to(dtype)
    for parameter in model.parameters():
        parameter.data.mul_(2)  # gates that open and close
    return model


def stepped(model, inputs):
    state, outputs, states = model.start(inputs.shape[0]), [], []
    for now in inputs.unbind(1):
        output, state, _ = model.step(state, now)
        outputs.append(output)
        states.append(state)
    return torch.stack(outputs, 1), states


@pytest.mark.parametrize("frees", [True, False])
def test_a_step_equals_the_loops(frees):
    model = made(free_gates=frees)
    inputs = torch.randn(1, 7, 3, dtype=torch.float64)
    memory, state = plain.Memory(5, 3, 2), model.start(1)
    for now in inputs.unbind(1):
        hidden, _ = model.controller(torch.cat([now, state.contexts.flatten(1)], -1), state.controller)
        contexts = memory.step(model.interface(hidden)[0].tolist(), frees)
        output, state, attended = model.step(state, now)
        assert_close(state.contexts[0], torch.tensor(contexts, dtype=torch.float64))
        assert_close(state.usage[0], torch.tensor(memory.usage, dtype=torch.float64))
        assert_close(state.link[0], torch.tensor(memory.link, dtype=torch.float64))
        assert_close(attended["write 0"].weights[0, 0], torch.tensor(memory.write, dtype=torch.float64))
        assert_close(attended["read 1"].weights[0, 0], torch.tensor(memory.read[1], dtype=torch.float64))
        whole = torch.cat([hidden, state.contexts.flatten(1)], -1)
        assert_close(output, model.readout(whole))


@pytest.mark.parametrize(("reads", "frees"), [(1, True), (2, True), (3, False)])
def test_whole_sequences_equal_their_steps_with_gradients(reads, frees):
    model = made(read_heads=reads, free_gates=frees)
    inputs = torch.randn(3, 7, 3, dtype=torch.float64, requires_grad=True)
    each = torch.cos(torch.arange(3 * 7 * 2, dtype=torch.float64)).reshape(3, 7, 2)
    wanted = [inputs, *model.parameters()]
    fast, slow = model(inputs), stepped(model, inputs)[0]
    assert_close(fast, slow, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad((outputs * each).sum(), wanted) for outputs in (fast, slow)]
    for quick, exact in zip(*gradients, strict=True):
        assert_close(quick, exact, rtol=1e-10, atol=1e-12)


def test_recorded_weights_have_their_gradients_too():
    model = made()
    inputs = torch.randn(2, 7, 3, dtype=torch.float64)
    with regard.record(model) as seen:
        model(inputs)
    names = ["heads.write 0", "heads.read 0", "heads.read 1"]
    assert sorted(seen) == sorted(names)
    state, looks = model.start(2), {name: [] for name in names}
    for now in inputs.unbind(1):
        _, state, attended = model.step(state, now)
        for name in names:
            looks[name].append(attended[name.removeprefix("heads.")].weights)
    each = torch.cos(torch.arange(2 * 7 * 5, dtype=torch.float64)).reshape(2, 7, 5)
    for name in names:
        assert seen.weights(name).shape == (2, 7, 5)
        ways = [seen.weights(name), torch.cat(looks[name], 1)]
        assert_close(*ways, rtol=1e-12, atol=1e-12)
        quick, exact = (
            torch.autograd.grad((way * each).sum(), model.interface.weight, retain_graph=True) for way in ways
        )
        assert_close(quick, exact, rtol=1e-10, atol=1e-12)


def test_the_plain_controllers_step():
    for choices in ({"controller": "feed_forward"}, {"layers": 2}):
        model = made(**choices)
        inputs = torch.randn(2, 5, 3, dtype=torch.float64)
        assert_close(model(inputs), stepped(model, inputs)[0])
    assert isinstance(model, SequenceModel)


def test_an_empty_sequence_has_no_outputs():
    model = made()
    assert model(torch.zeros(2, 0, 3, dtype=torch.float64)).shape == (2, 0, 2)
    assert model(torch.zeros(0, 4, 3, dtype=torch.float64)).shape == (0, 4, 2)


def test_b04_an_empty_memory_a_zero_key_and_full_gates_are_finite():
    model = made(dtype=torch.float32)
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias.zero_()  # every key is 0, and the memory is empty at first
    inputs = torch.randn(2, 11, 3)  # twice the slots
    for strength in (0.0, 200.0):
        with torch.no_grad():
            model.interface.bias[-model.layout.widths[3] - 3 :] = strength
        model.zero_grad()
        outputs = model(inputs)
        outputs.square().sum().backward()
        assert torch.isfinite(outputs).all()
        assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
        _, states = stepped(model, inputs)
        assert (states[-1].read.sum(-1) <= 1 + 1e-5).all() and (states[-1].write.sum(-1) <= 1 + 1e-5).all()
        assert all((state.usage >= 0).all() and (state.usage <= 1).all() for state in states)


def test_b22_neither_padding_nor_batch_mates_change_a_row():
    model = made()
    long, short = torch.randn(1, 11, 3, dtype=torch.float64), torch.randn(1, 7, 3, dtype=torch.float64)
    padded = torch.cat([short, torch.full((1, 4, 3), 1e3, dtype=torch.float64)], 1)
    together = model(torch.cat([long, padded]))
    assert_close(together[:1], model(long))
    assert_close(together[1:, :7], model(short))


def test_b36_a_state_is_not_changed_and_can_be_gone_on_from_twice():
    model = made()
    inputs = torch.randn(2, 6, 3, dtype=torch.float64)
    _, states = stepped(model, inputs[:, :5])
    before = copy.deepcopy(pytree.tree_map(torch.Tensor.detach, states[-1]))
    once, again = (model.step(states[-1], inputs[:, 5]).output for _ in range(2))
    assert torch.equal(once, again)
    for kept, now in zip(pytree.tree_leaves(before), pytree.tree_leaves(states[-1]), strict=True):
        assert torch.equal(kept, now)
    assert torch.equal(model(inputs), model(inputs))  # nothing of a call is left on the module


def test_b33_weights_written_and_read_again_give_the_same_numbers(tmp_path):
    from safetensors.torch import load_file, save_file

    model, other = made(), made()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    for parameter in other.parameters():
        parameter.data.zero_()
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    inputs = torch.randn(2, 5, 3, dtype=torch.float64)
    assert torch.equal(model(inputs), other(inputs))


def test_freed_slots_are_written_again_and_others_are_not():
    """Hard gates by hand: what is read and freed makes room; without free gates the memory fills up."""
    usage = torch.zeros(1, 2)
    write = torch.zeros(1, 2)
    slots = []
    for _ in range(4):  # write, then read what was just written, and free it
        usage = dnc.used(usage, write, dnc.retention(torch.ones(1, 1), write.unsqueeze(1)))
        write = dnc.allocation(usage)
        slots.append(write.argmax().item())
    assert slots == [0, 0, 0, 0]
    usage, write = torch.zeros(1, 2), torch.zeros(1, 2)
    sums = []
    for _ in range(4):
        usage = dnc.used(usage, write, dnc.retention(torch.zeros(1, 1), write.unsqueeze(1)))
        write = dnc.allocation(usage)
        sums.append(write.sum().item())
    assert sums == [1, 1, 0, 0]
