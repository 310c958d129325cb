"""The controllers of networks with a memory, and the plain LSTM beside them."""

import pytest
import torch

from regard.errors import ConfigError
from regard.layers.controller import Controller
from regard.layers.sequence import SequenceModel
from regard.models.memory.sequences import KINDS, build
from regard.models.memory.settings import LSTMSettings, NTMSettings


def test_a_feed_forward_controller_by_hand():
    controller = Controller("feed_forward", 2, 1)
    with torch.no_grad():
        controller.each[0].weight.copy_(torch.tensor([[2.0, -1.0]]))
        controller.each[0].bias.fill_(0.5)
    output, state = controller(torch.tensor([[1.0, 3.0]]), controller.start(1))
    assert output.item() == pytest.approx(torch.tanh(torch.tensor(-0.5)).item()) and state == ()


@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_controller_is_torchs(layers):
    torch.manual_seed(0)
    controller, given = Controller("lstm", 3, 5, layers), torch.randn(2, 7, 3)
    plain = torch.nn.LSTM(3, 5, layers, batch_first=True)
    for number, cell in enumerate(controller.recurrence.each):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(plain, f"{name}_l{number}").data.copy_(getattr(cell, name).data)
    state, outputs = controller.start(2), []
    for now in given.unbind(1):
        output, state = controller(now, state)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, 1), plain(given)[0], rtol=1e-5, atol=1e-6)
    assert [part.shape for part in state] == [(2, layers, 5)] * 2


def test_an_unknown_controller_is_reported():
    with pytest.raises(ConfigError, match="Did you mean 'lstm'"):
        Controller("lstn", 3, 5)


@pytest.mark.parametrize("settings", [LSTMSettings(kind="lstm", width=5, layers=2), NTMSettings(kind="ntm", width=5)])
def test_sequence_models_keep_to_the_interface(settings):
    torch.manual_seed(0)
    model, given = build(settings, 3, 2), torch.randn(2, 4, 3)
    assert isinstance(model, SequenceModel)
    state, outputs = model.start(2), []
    for now in given.unbind(1):
        stepped = model.step(state, now)
        state = stepped.state
        outputs.append(stepped.output)
    torch.testing.assert_close(torch.stack(outputs, 1), model(given), rtol=1e-4, atol=1e-6)


def test_an_unknown_model_is_reported():
    class Other:
        kind = "ntn"

    with pytest.raises(ConfigError, match="Did you mean 'ntm'"):
        build(Other(), 3, 2)
    assert {"lstm", "ntm"} <= set(KINDS)
