"""Models of sequences whose gradients are written out: hooks on a part of one are called, and other parts are used.

A whole sequence is then read step by step, as the model's own `step` reads it; else at once, as these tests count.
"""

import functools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import regard
from tests.models.at_once import (
    BATCH,
    LAYER,
    OUTPUTS,
    PARTS,
    SETTINGS,
    TIME,
    WEIGHTED,
    check_by_steps,
    counting,
    given,
    made,
    stepped,
)


@pytest.fixture
def at_once(monkeypatch):
    return counting(monkeypatch)


@pytest.mark.parametrize("kind", SETTINGS)
def test_alone_a_sequence_is_read_at_once(kind, at_once):
    model, inputs = made(kind), given()
    outputs = model(inputs)
    assert at_once()
    torch.testing.assert_close(outputs, stepped(model, inputs), rtol=1e-12, atol=1e-12)
    with regard.record(model) as seen:
        assert torch.equal(model(inputs), outputs) and at_once()
    assert len(seen.names()) > 0
    with torch.no_grad():
        assert torch.equal(model(inputs), outputs) and at_once()


# --- hooks ----------------------------------------------------------------------------------------------------------


class Noted:
    """A hook that can be copied with its module; it notes its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, *_):
        self.calls += 1


# torch's backward hooks are not called for an Attended, which is neither a tensor nor a tuple of them.
HOOKS = [
    (kind, part, way)
    for kind, part, _ in PARTS
    for way in ("forward", "forward_pre", "full_backward", "full_backward_pre")
    if not (part.endswith("attention") and way.startswith("full"))
]


@pytest.mark.parametrize(("kind", "part", "way"), HOOKS)
def test_a_hook_on_a_part_is_heard_at_each_step(kind, part, way, at_once):
    model, noted = made(kind), Noted()
    module = model.get_submodule(part)
    before = model(given())
    assert at_once()
    handle = getattr(module, f"register_{way}_hook")(noted)
    outputs = model(given().requires_grad_())
    assert not at_once()
    torch.testing.assert_close(outputs, before, rtol=1e-12, atol=1e-12)
    outputs.sum().backward()
    assert noted.calls == TIME
    handle.remove()
    assert torch.equal(model(given()), before) and at_once()


@pytest.mark.parametrize("part", ["controller.recurrence.each.0", "interface", "readout"])
@pytest.mark.parametrize("kind", ["ntm", "dnc"])
def test_what_a_hook_gives_back_counts(kind, part, at_once):
    model = made(kind)
    before = model(given())
    assert at_once()
    part = part.replace("interface", "orders" if kind == "ntm" else "interface")
    model.get_submodule(part).register_forward_hook(
        lambda module, args, out: out / 2 if isinstance(out, torch.Tensor) else tuple(one / 2 for one in out)
    )
    assert not torch.allclose(check_by_steps(model, at_once), before)


def test_what_a_hook_on_an_attention_gives_back_counts_beside_a_record(at_once):
    model = made("lstmn")
    before = model(given())
    assert at_once()
    attention = model.get_submodule(f"{LAYER}.attention")
    attention.register_forward_hook(lambda module, args, out: out.with_context(out.context / 2))
    with regard.record(model) as seen:
        found = model(given())
        assert not at_once()
    torch.testing.assert_close(found, stepped(model, given()))
    assert not torch.allclose(found, before) and len(seen[f"{LAYER}.attention"]) == TIME


@pytest.mark.parametrize("kind", SETTINGS)
def test_hooks_on_all_modules_are_heard(kind, at_once):
    model, fired = made(kind), []
    cell = "controller.recurrence.each.0" if kind != "lstmn" else f"{LAYER}.gates"
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: fired.append(module))
    try:
        model(given())
    finally:
        handle.remove()
    assert not at_once() and fired.count(model.get_submodule(cell)) == TIME


# --- other parts ----------------------------------------------------------------------------------------------------


class Louder(nn.Module):
    """As an adapter stands around a layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args, **named):
        out = self.layer(*args, **named)
        return 2 * out if isinstance(out, torch.Tensor) else tuple(2 * part for part in out)


@pytest.mark.parametrize("way", ["around", "forward"])
@pytest.mark.parametrize(("kind", "part", "weight"), [one for one in WEIGHTED if "score" not in one[1]])
def test_another_part_in_its_place_is_called(kind, part, weight, way, at_once):
    model = made(kind)
    before = model(given())
    assert at_once()
    above, _, name = part.rpartition(".")
    holder, layer = model.get_submodule(above), model.get_submodule(part)
    if way == "around":
        setattr(holder, name, Louder(layer))
    else:
        layer.forward = functools.partial(loud, type(layer).forward, layer)
    found = model(given())
    assert not at_once() and not torch.allclose(found, before)
    torch.testing.assert_close(found, stepped(model, given()))


def loud(forward, layer, *args, **named):
    out = forward(layer, *args, **named)
    return 2 * out if isinstance(out, torch.Tensor) else tuple(2 * part for part in out)


# An old weight norm stands on calls, and a score's keys are prepared without one.
MAKERS = [
    (*one, way)
    for one in WEIGHTED
    for way in ("spectral norm", "weight norm", "an old weight norm", "a half")
    if not ("score" in one[1] and "old" in way)
]


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(("kind", "part", "weight", "way"), MAKERS)
def test_a_weight_that_is_made_of_others_is_made_at_each_step(kind, part, weight, way, at_once):
    """A spectral norm iterates at each call in training; an old weight norm stands still until the layer is called."""
    model = made(kind).train()
    before = model(given())
    assert at_once()
    layer = model.get_submodule(part)
    if way == "spectral norm":
        parametrizations.spectral_norm(layer, weight)
    elif way == "weight norm":
        parametrizations.weight_norm(layer, weight)
    elif way == "a half":
        parametrize.register_parametrization(layer, weight, Half())
    else:
        layer = nn.utils.weight_norm(layer, weight)
        with torch.no_grad():
            getattr(layer, f"{weight}_g").mul_(2)
    if way == "an old weight norm":  # it cannot be copied
        found = model(given())
        assert not at_once()
        torch.testing.assert_close(found, stepped(model, given()), rtol=1e-12, atol=1e-12)
    else:
        found = check_by_steps(model, at_once)
    assert way == "weight norm" or not torch.allclose(found, before)


class Half(nn.Module):
    def forward(self, weight):
        return weight / 2


@pytest.mark.parametrize("kind", ["ntm", "dnc"])
def test_orders_without_a_bias(kind, at_once):
    model, name = made(kind), "orders" if kind == "ntm" else "interface"
    layer = getattr(model, name)
    setattr(model, name, nn.Linear(layer.in_features, layer.out_features, bias=False).double())
    check_by_steps(model, at_once)


@pytest.mark.parametrize("kind", ["ntm", "dnc"])
def test_another_readout_needs_no_width_of_its_own(kind, at_once):
    model = made(kind)
    model.readout = nn.Sequential(model.readout, nn.Tanh())
    check_by_steps(model, at_once)
    assert model(given()[:, :0]).shape == (BATCH, 0, OUTPUTS)


class Bits(torch.Tensor):
    """A weight of a class that answers torch's operations itself, as quantized weights do."""

    @staticmethod
    def __new__(cls, numbers):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=numbers.dtype)

    def __init__(self, numbers):
        self.numbers = numbers

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        plain = torch.utils._pytree.tree_map(lambda one: one.numbers if isinstance(one, cls) else one, args)
        made = operation(*plain, **(kwargs or {}))
        return cls(made) if operation is torch.ops.aten.detach.default else made


@pytest.mark.parametrize(("kind", "part", "weight"), WEIGHTED)
def test_a_weight_of_another_class_is_asked(kind, part, weight, at_once):
    model = made(kind).requires_grad_(False)
    wanted = model(given())
    layer = model.get_submodule(part)
    setattr(layer, weight, nn.Parameter(Bits(getattr(layer, weight).detach()), requires_grad=False))
    at_once()
    torch.testing.assert_close(model(given()), wanted, rtol=1e-12, atol=1e-12)
    # A readout is called in both ways.
    assert at_once() == (part == "readout")
