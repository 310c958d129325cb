"""A fixed context and key-value attention: by steps and at once, and what each of them can know."""

import pytest
import torch

import regard
from regard.errors import ConfigError
from regard.models.memory.sequences import build
from regard.models.memory.settings import FixedSettings, KeyValueSettings

INPUTS, OUTPUTS, BATCH, TIME = 5, 3, 7, 11
SETTINGS = [FixedSettings(width=7), KeyValueSettings(width=5, attention_dim=3)]


def made(settings, seed=0):
    torch.manual_seed(seed)
    model = build(settings, INPUTS, OUTPUTS).double()
    inputs = torch.randn(BATCH, TIME, INPUTS, dtype=torch.float64)
    inputs[..., -1] = 0
    for row in range(BATCH - 1):  # the last row asks nothing; the first asks at once
        inputs[row, row, -1] = 1
    return model, inputs


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda one: one.kind)
def test_at_once_is_step_by_step_in_values_and_gradients(settings):
    model, inputs = made(settings)
    inputs.requires_grad_()
    whole, state, steps = model(inputs), model.start(BATCH), []
    for now in inputs.unbind(1):
        output, state, _ = model.step(state, now)
        steps.append(output)
    stepped = torch.stack(steps, 1)
    assert whole.shape == (BATCH, TIME, OUTPUTS) and torch.allclose(whole, stepped, atol=1e-12)
    weight = torch.randn_like(whole)
    wanted = [inputs, *model.parameters()]
    for one, other in zip(
        *(torch.autograd.grad((made * weight).sum(), wanted) for made in (whole, stepped)), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-12)
    assert model(inputs[:0]).shape == (0, TIME, OUTPUTS) and model(inputs[:, :0]).shape == (BATCH, 0, OUTPUTS)


def test_the_fixed_context_is_all_that_the_answer_knows_of_what_was_read():
    model, inputs = made(FixedSettings(width=7))
    state = model.start(1)
    for now in inputs[4:5, :4].unbind(1):
        state = model.step(state, now).state
    told = model.step(state, inputs[4:5, 4])
    assert torch.equal(told.state.reading[0], state.reading[0])  # the encoder stands still from the question on
    nothing = state._replace(reading=tuple(torch.zeros_like(part) for part in state.reading))
    assert not torch.allclose(model.step(nothing, inputs[4:5, 4]).output, told.output)
    assert torch.equal(model(inputs)[6], model.readout.bias.expand(TIME, -1))  # nothing asked, nothing said
    with pytest.raises(ConfigError, match="model.mark is 5, and there are 5 inputs"):
        build(FixedSettings(mark=5), INPUTS, OUTPUTS)


def test_key_value_attention_finds_by_one_part_and_reads_the_other():
    """Two parts of one output: a change of the keys moves the weights, a change of the values does not."""
    model, inputs = made(KeyValueSettings(width=5, attention_dim=3))
    with regard.record(model) as record:
        model(inputs)
    [weights] = [attended.weights for attended in record["attention"]]
    assert torch.equal(weights.triu(), torch.zeros_like(weights))  # strictly the past
    assert torch.allclose(weights.sum(-1)[:, 1:], torch.ones(BATCH, TIME - 1, dtype=torch.float64))
    state = model.start(BATCH)
    for now in inputs[:, :3].unbind(1):
        state = model.step(state, now).state
    looked = model.step(state, inputs[:, 3]).attended["past"].weights
    other = model.step(state._replace(values=state.values + 1), inputs[:, 3])
    assert torch.equal(other.attended["past"].weights, looked) and looked.shape == (BATCH, 1, 3)
    moved = model.step(state._replace(keys=state.keys.flip(1)), inputs[:, 3]).attended["past"].weights
    assert torch.allclose(moved, looked.flip(-1))
