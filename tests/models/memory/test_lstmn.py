"""The long short-term memory-network: its equations, its tapes, its loop by hand."""

import math

import pytest
import torch

import regard
from regard.kernels.autograd.plain import is_plain
from regard.models.memory.lstmn import LSTMN, LSTMNLayer, LSTMNReader
from regard.models.memory.lstmn_fusion import DeepFusion, ShallowFusion
from regard.models.memory.sequences import build
from regard.models.memory.settings import LSTMNSettings
from tests.reference.lstmn import deep, lstmn, shallow

TIME, INPUTS, WIDTH, ATTENTION, BATCH = 11, 7, 5, 3, 2


def layer(bound: int | None = None, seed: int = 0) -> LSTMNLayer:
    torch.manual_seed(seed)
    return LSTMNLayer(INPUTS, WIDTH, ATTENTION, bound).double()


def text(time: int = TIME, batch: int = BATCH, inputs: int = INPUTS) -> torch.Tensor:
    return torch.randn(batch, time, inputs, dtype=torch.double)


def gradients(model, loss) -> dict[str, torch.Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("bound", [None, 1, 3, TIME])
def test_equals_the_equations_written_out_with_gradients(bound):
    model, inputs = layer(bound), text()
    hidden, tapes = model(inputs, model.start(BATCH))
    each = [lstmn(model, row, bound) for row in inputs]
    wanted = torch.stack([one[0] for one in each])
    torch.testing.assert_close(hidden, wanted)
    kept = TIME if bound is None else min(bound, TIME)
    torch.testing.assert_close(tapes.hidden, wanted[:, -kept:])
    torch.testing.assert_close(tapes.memory, torch.stack([one[1] for one in each])[:, -kept:])
    mix = torch.randn_like(hidden)
    found, expected = gradients(model, (hidden * mix).sum()), gradients(model, (wanted * mix).sum())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=lambda text, name=name: f"{name}: {text}")


def test_two_steps_by_hand():
    """Width, inputs and attention 1, all weights 1, biases 0: eq. 4 to 9 on paper."""
    model = LSTMNLayer(1, 1, 1).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(0.0 if "bias" in name else 1.0)
    hidden, tapes = model(torch.ones(1, 2, 1, dtype=torch.double), model.start(1))
    gate, candidate = 1 / (1 + math.exp(-1)), math.tanh(1)
    memory = gate * candidate  # the first step has no past: h̃ = c̃ = 0
    first = gate * math.tanh(memory)
    assert hidden[0, 0].item() == pytest.approx(first, abs=1e-12)
    assert first == pytest.approx(0.369606, abs=1e-6)
    # One slot has all the weight: h̃ = h[1], c̃ = c[1].
    gate, candidate = 1 / (1 + math.exp(-1 - first)), math.tanh(1 + first)
    second = gate * memory + gate * candidate
    assert tapes.memory[0, 1].item() == pytest.approx(second, abs=1e-12)
    assert hidden[0, 1].item() == pytest.approx(gate * math.tanh(second), abs=1e-12)
    assert hidden[0, 1].item() == pytest.approx(0.650535, abs=1e-6)


def test_the_first_step_reads_exactly_0_and_its_gradient_is_finite():
    """K1: nothing to look at is no 0/0."""
    model, inputs = layer(), text(time=1)
    stepped = model.attend(model.start(BATCH), inputs[:, 0])
    assert stepped.weights.shape == (BATCH, 1, 0)
    assert torch.equal(stepped.context, torch.zeros(BATCH, 1, 2 * WIDTH, dtype=torch.double))
    hidden, _ = model(inputs, model.start(BATCH))
    for name, gradient in gradients(model, hidden.sum()).items():
        assert gradient.isfinite().all()
        if name.startswith("attention"):
            assert not gradient.any()


def test_a_position_depends_on_the_strict_past_and_itself_alone():
    model, inputs = layer(), text()
    before, _ = model(inputs, model.start(BATCH))
    changed = inputs.clone()
    changed[:, 6] += 1
    after, _ = model(changed, model.start(BATCH))
    assert torch.equal(before[:, :6], after[:, :6])
    assert (before[:, 6:] != after[:, 6:]).any(-1).all()


@pytest.mark.parametrize("bound", [None, 3])
def test_steps_windows_and_the_whole_give_the_same_numbers(bound):
    """K5 (B18): one by one, in chunks of any size, or at once."""
    settings = LSTMNSettings(width=WIDTH, attention=ATTENTION, layers=2, tape=bound)
    torch.manual_seed(1)
    model, inputs = LSTMN(settings, INPUTS, 2).double(), text()
    whole, state, each = model(inputs), model.start(BATCH), []
    for now in inputs.unbind(1):
        stepped = model.step(state, now)
        state = stepped.state
        each.append(stepped.output)
    torch.testing.assert_close(torch.stack(each, 1), whole)
    for chunk in (1, 4):
        carried, parts = model.start(BATCH), []
        for part in inputs.split(chunk, 1):
            hidden, carried = model.reader(part, carried)
            parts.append(model.readout(hidden))
        torch.testing.assert_close(torch.cat(parts, 1), whole)
        for one, other in zip(carried, state, strict=True):
            torch.testing.assert_close(one, other)


def test_gradients_pass_through_a_carried_state():
    model, inputs = layer(bound=4), text()
    whole, _ = model(inputs, model.start(BATCH))
    first, state = model(inputs[:, :5], model.start(BATCH))
    second, _ = model(inputs[:, 5:], state)
    mix = torch.randn_like(whole)
    expected = gradients(model, (whole * mix).sum())
    found = gradients(model, (torch.cat([first, second], 1) * mix).sum())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)


@pytest.mark.parametrize("prompt", [1, 7, 8, 9, 20])
def test_a_rolling_tape_holds_the_last_slots_B19(prompt):
    """A tape of 8: nothing is lost a step too early, and no more is kept, whatever the prompt's length."""
    model = layer(bound=8)
    inputs = text(time=prompt + 4, batch=1)
    free = layer()
    every, _ = free(inputs, free.start(1))
    _, state = model(inputs[:, :prompt], model.start(1))
    for at in range(prompt, prompt + 4):
        _, state, looked = model.step(state, inputs[:, at])
        assert looked.weights.shape[-1] == min(at, 8)
        assert state.tape.shape[1] == min(at + 1, 8)
        assert state.tape.untyped_storage().nbytes() <= 9 * 2 * WIDTH * 8  # what was rolled over is let go
    if prompt + 4 <= 8:
        torch.testing.assert_close(state.hidden, every)


def test_a_tape_as_long_as_the_text_changes_nothing():
    inputs = text()
    bounded, free = layer(bound=TIME - 1), layer()
    assert torch.equal(bounded(inputs, bounded.start(BATCH))[0], free(inputs, free.start(BATCH))[0])
    short = layer(bound=TIME - 2)
    assert not torch.equal(short(inputs, short.start(BATCH))[0], free(inputs, free.start(BATCH))[0])


def test_a_given_state_is_not_changed_and_batch_mates_do_not_matter():
    """K9 (B36) and K6: a state may be used twice; each row alone gives its row of the batch."""
    model, inputs = layer(bound=4), text()
    _, state = model(inputs[:, :6], model.start(BATCH))
    before = [one.clone() for one in state]
    one, two = (model(inputs[:, 6:], state)[0] for _ in range(2))
    model.step(state, inputs[:, 6])
    assert torch.equal(one, two)
    assert all(map(torch.equal, state, before))
    alone, _ = model(inputs[:1], model.start(1))
    torch.testing.assert_close(alone, model(inputs, model.start(BATCH))[0][:1])


def test_recording_steps_changes_nothing():
    model = LSTMNReader(LSTMNSettings(width=WIDTH, attention=ATTENTION), INPUTS).double()
    inputs = text()
    unseen, _ = model(inputs, model.start(BATCH))
    with regard.record(model) as record:
        seen, _ = model(inputs, model.start(BATCH))
    assert torch.equal(seen, unseen)  # bit for bit
    looks = record["layers.0.attention"]
    assert [one.weights.shape[-1] for one in looks] == list(range(TIME))
    _, _, wanted = lstmn(model.layers[0], inputs[0])
    for look, weights in zip(looks, wanted, strict=True):
        torch.testing.assert_close(look.weights[0, 0], weights)


def test_empty_batches_and_texts_have_their_shapes():
    """K1, K11: sizes of 0 and 1."""
    model = layer()
    for batch, time in ((0, 3), (2, 0), (1, 1)):
        hidden, tapes = model(text(time, batch), model.start(batch))
        assert hidden.shape == (batch, time, WIDTH)
        assert tapes.tape.shape == (batch, time, 2 * WIDTH)


def test_the_loop_by_hand_steps_aside_where_it_cannot_serve():
    """vmap and forward mode go by plain steps, to the same numbers."""
    model, inputs = layer(), text()
    wanted, _ = model(inputs, model.start(BATCH))
    mapped = torch.vmap(lambda row: model(row.unsqueeze(0), model.start(1))[0].squeeze(0))(inputs)
    torch.testing.assert_close(mapped, wanted)
    with torch.autograd.forward_ad.dual_level():
        moving = torch.autograd.forward_ad.make_dual(inputs, torch.ones_like(inputs))
        primal, tangent = torch.autograd.forward_ad.unpack_dual(model(moving, model.start(BATCH))[0])
    torch.testing.assert_close(primal, wanted)
    step = 1e-6
    ahead, behind = (model(inputs + moved, model.start(BATCH))[0] for moved in (step, -step))
    torch.testing.assert_close(tangent, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)
    assert is_plain(inputs)
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_plain(inputs)


def test_it_is_built_by_its_kind():
    settings = LSTMNSettings(width=WIDTH, attention=ATTENTION)
    assert isinstance(build(settings, INPUTS, 2), LSTMN)


class TestFusion:
    SOURCE, TARGET = 6, 4

    def made(self, kind):
        torch.manual_seed(2)
        return kind(INPUTS, 3, WIDTH, ATTENTION).double()

    @pytest.mark.parametrize(("kind", "twin"), [(ShallowFusion, shallow), (DeepFusion, deep)])
    def test_equals_the_equations_written_out_with_gradients(self, kind, twin):
        model, source, target = self.made(kind), text(self.SOURCE), text(self.TARGET, inputs=3)
        found = model(source, target)
        wanted = torch.stack([twin(model, *row) for row in zip(source, target, strict=True)])
        torch.testing.assert_close(found, wanted)
        mix = torch.randn_like(found)
        expected = gradients(model, (wanted * mix).sum())
        for name, gradient in gradients(model, (found * mix).sum()).items():
            torch.testing.assert_close(gradient, expected[name])

    @pytest.mark.parametrize("kind", [ShallowFusion, DeepFusion])
    def test_padding_of_the_source_changes_nothing_B22(self, kind):
        model, source, target = self.made(kind), text(self.SOURCE), text(self.TARGET, inputs=3)
        lengths = torch.tensor([self.SOURCE, 2])
        source[1, 2:] = torch.nan
        found = model(source, target, lengths)
        torch.testing.assert_close(found[1:], model(source[1:, :2], target[1:]))
        assert found.isfinite().all()
        for gradient in gradients(model, found.sum()).values():
            assert gradient.isfinite().all()

    @pytest.mark.parametrize("kind", [ShallowFusion, DeepFusion])
    def test_each_step_returns_its_weights(self, kind):
        model, source, target = self.made(kind), text(self.SOURCE), text(self.TARGET, inputs=3)
        state = model.start(model.encode(source, torch.tensor([self.SOURCE, 2])), BATCH)
        for at, inputs in enumerate(target.unbind(1)):
            stepped = model.step(state, inputs)
            state = stepped.state
            assert stepped.attended["past"].weights.shape == (BATCH, 1, at)
            weights = stepped.attended["source"].weights
            torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, 1, dtype=torch.double))
            assert not weights[1, 0, 2:].any()

    def test_an_empty_source_is_read_as_0(self):
        """K1: a row of length 0 beside others."""
        model, source, target = self.made(DeepFusion), text(self.SOURCE), text(self.TARGET, inputs=3)
        found = model(source, target, torch.tensor([self.SOURCE, 0]))
        assert found.isfinite().all()
        alone = self.made(DeepFusion).decoder
        hidden, _ = alone(target[1:], alone.start(1))
        torch.testing.assert_close(found[1:], hidden)  # α̃ = 0: what remains is the reading of its own past


def test_gates_that_are_others_are_called():
    class Own(torch.nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = LSTMNReader(LSTMNSettings(width=WIDTH, attention=ATTENTION), INPUTS).double()
    given = text()
    before, _ = model(given, model.start(BATCH))
    model.layers[0].gates.__class__ = Own
    found, _ = model(given, model.start(BATCH))
    state, each = model.layers[0].start(BATCH), []
    for now in given.unbind(1):
        hidden, state, _ = model.layers[0].step(state, now)
        each.append(hidden)
    torch.testing.assert_close(found, torch.stack(each, 1))
    assert not torch.allclose(found, before)
