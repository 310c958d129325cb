"""Models of sequences whose gradients are written out, and whether they read a whole sequence at once."""

import copy

import torch

from regard.kernels.memory import lstmn as lstmn_kernel
from regard.models.memory import dnc, ntm
from regard.models.memory.sequences import build
from regard.models.memory.settings import DNCSettings, LSTMNSettings, NTMSettings

INPUTS, OUTPUTS, BATCH, TIME = 3, 2, 2, 3
SETTINGS = {
    "ntm": NTMSettings(kind="ntm", width=5, slots=7, slot_dim=3),
    "dnc": DNCSettings(kind="dnc", width=5, slots=7, slot_dim=3),
    "lstmn": LSTMNSettings(width=7, attention=3),
}
LAYER = "reader.layers.0"
PARTS = [  # what a whole sequence is computed from, or would pass over, and a weight of it
    ("ntm", "controller", None),
    ("ntm", "controller.recurrence", None),
    ("ntm", "controller.recurrence.each.0", "weight_ih"),
    ("ntm", "orders", "weight"),
    ("ntm", "readout", "weight"),
    ("dnc", "controller", None),
    ("dnc", "controller.recurrence", None),
    ("dnc", "controller.recurrence.each.0", "weight_hh"),
    ("dnc", "interface", "weight"),
    ("dnc", "readout", "weight"),
    ("lstmn", f"{LAYER}.gates", "weight"),
    ("lstmn", f"{LAYER}.attention", None),
    ("lstmn", f"{LAYER}.attention.score", "key_weight"),
    ("lstmn", f"{LAYER}.attention.normalizer", None),
]
WEIGHTED = [one for one in PARTS if one[2]]
KERNELS = {"ntm": (ntm, "machine"), "dnc": (dnc, "computer"), "lstmn": (lstmn_kernel, "run")}


def made(kind):
    torch.manual_seed(0)
    return build(SETTINGS[kind], INPUTS, OUTPUTS).double()


def given():
    return torch.randn(BATCH, TIME, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def stepped(model, inputs):
    state, outputs = model.start(len(inputs)), []
    for now in inputs.unbind(1):
        output, state, _ = model.step(state, now)
        outputs.append(output)
    return torch.stack(outputs, 1)


def counting(monkeypatch):
    """A function that says whether sequences were read at once since it was asked last."""
    calls = []
    for module, name in KERNELS.values():
        whole = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, _whole=whole: calls.append(1) or _whole(*args))

    def asked():
        found = bool(calls)
        calls.clear()
        return found

    return asked


def check_by_steps(model, at_once):
    """A sequence gives what its steps give, with every gradient, and was not read at once."""
    twin = copy.deepcopy(model)  # some parts count their calls
    found = model(given())
    assert not at_once()
    wanted = stepped(twin, given())
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-12)
    return found
