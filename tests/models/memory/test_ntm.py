"""The Neural Turing machine: the numbers of its step, its two ways over a sequence, and what must never become NaN."""

import itertools

import pytest
import torch

import regard
from regard.kernels.memory.arrays import numpy_serves
from regard.models.memory import ntm
from regard.models.memory.ntm import HeadParameters, NeuralTuringMachine, NTMState
from regard.models.memory.sequences import build
from regard.models.memory.settings import DNCSettings, NTMSettings

INPUTS, OUTPUTS, BATCH, TIME = 4, 2, 3, 5


def machine(memory=0.1, seed=0, spread=0.7, **choices):
    torch.manual_seed(seed)
    sizes = {"width": 5, "slots": 7, "slot_dim": 3, "memory": memory, **choices}
    made = NeuralTuringMachine(NTMSettings(kind="ntm", **sizes), INPUTS, OUTPUTS).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=spread)
    return made


def inputs(batch=BATCH, time=TIME, seed=1):
    return torch.randn(batch, time, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def stepped(model, given):
    """Outputs of all steps, one by one, and the last state."""
    state, outputs = model.start(len(given)), []
    for now in given.unbind(1):
        output_now = model.step(state, now)
        state = output_now.state
        outputs.append(output_now.output)
    return torch.stack(outputs, 1), state


def test_one_whole_step_w21(monkeypatch):
    """W21: addressing in five stages, what is read before the writing, and the memory after it."""
    number = torch.tensor
    head = HeadParameters(
        key=number([[[1.0, 0.0]] * 2]),
        strength=number([[2.0, 2.0]]),
        gate=number([[0.5, 0.5]]),
        shift=number([[[0.1, 0.8, 0.1]] * 2]),
        exponent=number([[2.0, 2.0]]),
        erase=number([[[1.0, 0.5]]]),
        add=number([[[0.0, 1.0]]]),
    )
    monkeypatch.setattr(ntm, "head_parameters", lambda layout, raw: head)
    model = NeuralTuringMachine(NTMSettings(kind="ntm", width=5, slots=3, slot_dim=2), INPUTS, OUTPUTS)
    state = NTMState(
        controller=model.controller.start(1),
        memory=number([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]),
        weights=number([[[0.0, 1.0, 0.0]] * 2]),
        reads=torch.zeros(1, 1, 2),
    )
    output_now = model.step(state, torch.zeros(1, INPUTS))
    for name in ("read 0", "write 0"):
        assert output_now.attended[name].weights[0, 0].tolist() == pytest.approx([0.2552, 0.6193, 0.1255], abs=5e-5)
    assert output_now.attended["write 0"].context is None
    assert output_now.state.reads[0, 0].tolist() == pytest.approx([0.3807, 0.7448], abs=5e-5)
    assert output_now.attended["read 0"].context[0, 0].tolist() == pytest.approx([0.3807, 0.7448], abs=5e-5)
    expected = [0.7448, 0.2552, 0, 1.3097, 0.8745, 1.0627]
    assert output_now.state.memory.flatten().tolist() == pytest.approx(expected, abs=5e-5)
    assert state.memory.flatten().tolist() == [1, 0, 0, 1, 1, 1]  # the given state is not changed


def test_all_writing_heads_erase_before_any_adds(monkeypatch):
    """By hand: two heads at slot 0 with e = 1/2 each leave a quarter, and then both add (equations 3 and 4)."""
    sharp = torch.tensor([[[1e3, -1e3, 0.0]] * 3])
    head = HeadParameters(
        key=sharp,
        strength=torch.zeros(1, 3),
        gate=torch.zeros(1, 3),
        shift=torch.ones(1, 3, 1),
        exponent=torch.ones(1, 3),
        erase=torch.full((1, 2, 3), 0.5),
        add=torch.tensor([[[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]]),
    )
    monkeypatch.setattr(ntm, "head_parameters", lambda layout, raw: head)
    choices = NTMSettings(kind="ntm", slots=2, slot_dim=3, write_heads=2, reach=0, memory=8.0)
    model = NeuralTuringMachine(choices, INPUTS, OUTPUTS)
    after = model.step(model.start(1), torch.zeros(1, INPUTS)).state.memory[0].tolist()
    assert after == [[3.0, 4.0, 2.0], [8.0, 8.0, 8.0]]


SHAPES = [
    {},
    {"read_heads": 2, "write_heads": 3},
    {"reach": 0},
    {"reach": 3, "slots": 5},  # the reach goes around the circle
]


@pytest.mark.parametrize("choices", SHAPES, ids=str)
def test_the_fast_way_is_the_plain_one(choices):
    """Outputs and every gradient of the sequence by hand equal those of single steps through `attend`."""
    model, given = machine(**choices), inputs()
    upstream = torch.randn(BATCH, TIME, OUTPUTS, dtype=torch.float64)
    plain, _ = stepped(model, given)
    fast = model(given)
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)
    parameters = list(model.parameters())
    expected = torch.autograd.grad((plain * upstream).sum(), parameters)
    for found, wanted in zip(torch.autograd.grad((fast * upstream).sum(), parameters), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    with torch.no_grad():
        assert torch.equal(model(given), fast)


def test_the_fast_ways_weights_can_be_taught():
    """A loss on where the heads were reaches the weights of the controller."""
    model, given = machine(), inputs()
    with regard.record(model) as seen:
        model(given)
    fast = torch.autograd.grad(seen.weights("heads.write 0").square().sum(), model.orders.weight)[0]
    with regard.record(model) as seen:
        stepped(model, given)
    plain = torch.autograd.grad(seen.weights("heads.write 0").square().sum(), model.orders.weight)[0]
    assert plain.abs().max() > 0
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-12)


def test_looking_changes_nothing_and_both_ways_look_alike():
    model, given = machine(read_heads=2), inputs()
    alone = model(given)
    with regard.record(model) as seen:
        assert torch.equal(model(given), alone)
    with regard.record(model) as stepwise:
        stepped(model, given)
    for name in ("heads.read 0", "heads.read 1", "heads.write 0"):
        weights = seen.weights(name)
        assert weights.shape == (BATCH, TIME, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, TIME, dtype=torch.float64))
        torch.testing.assert_close(weights, stepwise.weights(name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("controller, layers", [("feed_forward", 1), ("feed_forward", 2), ("lstm", 2)])
def test_every_controller_reads_a_sequence_as_its_steps(controller, layers):
    model, given = machine(controller=controller, layers=layers), inputs()
    outputs, state = stepped(model, given)
    assert torch.equal(model(given), outputs)
    assert state.memory.shape == (BATCH, 7, 3) and state.weights.shape == (BATCH, 2, 7)
    outputs.sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in model.parameters())


@pytest.mark.parametrize("batch, time", [(0, 5), (3, 0), (1, 1)])
def test_no_rows_or_steps_keep_their_shape_b42(batch, time):
    assert machine()(inputs(batch, time)).shape == (batch, time, OUTPUTS)


def test_rows_of_a_batch_do_not_meet_k6():
    """K6, K9: a row alone gives what it gives beside others, and nothing is left from one sequence to the next."""
    model, given = machine(), inputs()
    together = model(given)
    for row in range(BATCH):
        torch.testing.assert_close(model(given[row : row + 1]), together[row : row + 1], rtol=1e-12, atol=1e-12)
    longer = torch.cat([given, torch.full((BATCH, 2, INPUTS), 9.0, dtype=torch.float64)], 1)
    torch.testing.assert_close(model(longer)[:, :TIME], together, rtol=1e-12, atol=1e-12)


def test_a_trained_machine_takes_any_number_of_slots():
    small, large = machine(), machine(slots=11, seed=2)
    large.load_state_dict(small.state_dict())
    assert large(inputs()).isfinite().all()


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("memory, dtype", list(itertools.product([0.0, 1e-6], [torch.float32, torch.float64])))
def test_zero_memory_and_zero_keys_b04(fast, memory, dtype):
    """B04: no similarity has a direction to go by; weights tie, nothing is NaN, forwards and backwards."""
    model = machine(memory=memory).to(dtype)
    with torch.no_grad():
        model.orders.weight.zero_()
        model.orders.bias.zero_()  # key 0, and what is added is 0 too: the memory stays as it was
    given = inputs().to(dtype)
    outputs = model(given) if fast else stepped(model, given)[0]
    outputs.square().sum().backward()
    assert outputs.isfinite().all()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
    with torch.no_grad():
        content = regard.attend(
            torch.zeros(1, 1, 3), torch.zeros(1, 7, 3), score=regard.score("cosine", strength=5.0)
        ).weights
    assert content.flatten().tolist() == pytest.approx([1 / 7] * 7)


@pytest.mark.parametrize("fast", [True, False])
def test_a_sharpening_of_200_stays_a_distribution_b04(fast):
    """B04: an exponent of 200 on blurred weights, forwards and backwards, in float32."""
    model = machine().float()
    with torch.no_grad():
        low = sum(model.layout.widths[:2]) + model.layout.heads
        model.orders.weight[low : low + model.layout.heads] = 0
        model.orders.bias[low : low + model.layout.heads] = 199.0
    given = inputs().float()
    with regard.record(model) as seen:
        outputs = model(given) if fast else stepped(model, given)[0]
    outputs.square().sum().backward()
    for name in ("heads.read 0", "heads.write 0"):
        weights = seen.weights(name)
        torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, TIME), rtol=1e-6, atol=1e-6)
        assert weights.max(-1).values.mean() > 0.8
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("steps", [300, pytest.param(30_000, marks=pytest.mark.slow)])
def test_no_nan_over_many_steps(steps):
    """Sharp heads, strong keys and writing at every step, in float32; weights stay distributions to the end."""
    model = machine(memory=1e-6, spread=3.0).float()
    given = inputs(1, steps).float()
    with torch.no_grad(), regard.record(model) as seen:
        outputs = model(given)
    assert outputs.shape == (1, steps, OUTPUTS) and outputs.isfinite().all()
    weights = seen.weights("heads.read 0")
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, steps), rtol=1e-5, atol=1e-5)


def test_the_fast_way_is_left_where_it_cannot_serve():
    """Types that numpy has not, autocast, forward mode, and inside vmap: there the plain steps answer."""
    given, mapped = inputs(), []
    assert numpy_serves(given) and not numpy_serves(given.bfloat16())
    with torch.autocast("cpu"):
        assert not numpy_serves(given)
    with torch.autograd.forward_ad.dual_level():
        assert not numpy_serves(given)
    torch.vmap(lambda one: (mapped.append(numpy_serves(one)), one)[1])(given)
    assert mapped == [False]


@pytest.mark.parametrize("kind", ["ntm", "dnc"])
def test_weights_that_changed_before_the_backward_pass_are_reported(kind):
    """The fast ways read the weights' own memory: a gradient of other weights than the call's would be silent."""
    model = build((NTMSettings if kind == "ntm" else DNCSettings)(kind=kind, width=5), INPUTS, OUTPUTS)
    outputs = model(torch.randn(2, 3, INPUTS))
    with torch.no_grad():
        (model.orders if kind == "ntm" else model.interface).weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


class OwnCell(torch.nn.LSTMCell):
    def forward(self, inputs, state=None):
        return tuple(2 * part for part in super().forward(inputs, state))


class OwnLinear(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize("part", ["controller.recurrence.each.0", "interface"])
@pytest.mark.parametrize("kind", ["ntm", "dnc"])
def test_layers_that_do_something_else_are_called(kind, part):
    """Both fast ways compute from the weights of a cell and of the layer that steers the memory."""
    torch.manual_seed(0)
    model = build((NTMSettings if kind == "ntm" else DNCSettings)(kind=kind, width=5), INPUTS, OUTPUTS).double()
    layer = model.get_submodule(part.replace("interface", "orders" if kind == "ntm" else "interface"))
    before = model(inputs())
    layer.__class__ = OwnLinear if part == "interface" else OwnCell
    torch.testing.assert_close(model(inputs()), stepped(model, inputs())[0])
    assert not torch.allclose(model(inputs()), before)
