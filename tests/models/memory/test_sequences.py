"""What models with a memory say of inputs that they were not made for."""

import jaxtyping
import pytest
import torch

from regard.errors import ShapeError
from regard.models.memory.sequences import build, check_sequences, check_step
from regard.models.memory.settings import (
    DNCSettings,
    FixedSettings,
    KeyValueSettings,
    LSTMNSettings,
    LSTMSettings,
    NTMSettings,
)
from regard.models.transformer.settings import TransformerSequenceSettings

KINDS = {
    "ntm": NTMSettings(width=5, slots=7, slot_dim=3),
    "dnc": DNCSettings(width=5, slots=7, slot_dim=3),
    "lstmn": LSTMNSettings(width=5, attention=3, layers=2),
    "lstm": LSTMSettings(width=5, layers=2),
    "fixed": FixedSettings(width=5),
    "key_value": KeyValueSettings(width=5, attention_dim=3),
    "transformer": TransformerSequenceSettings(dim=8, heads=2),
}


@pytest.fixture(params=KINDS)
def model(request):
    torch.manual_seed(0)
    return build(KINDS[request.param], 3, 2)


@pytest.mark.parametrize("inference", [False, True])
def test_inputs_of_another_width_are_reported(model, inference):
    with torch.inference_mode(inference), pytest.raises(ShapeError) as told:
        model(torch.zeros(2, 5, 4))
    assert str(told.value) == (
        "the inputs have shape (2, 5, 4); expected (batch, time, inputs) and inputs=3, the width that this model was "
        "made for. Give them so, or make a model of their width"
    )
    with pytest.raises(ShapeError, match=r"the inputs have shape \(2, 4\); expected \(batch, inputs\) and inputs=3"):
        model.step(model.start(2), torch.zeros(2, 4))


@pytest.fixture
def unchecked():
    """Shapes are not compared with annotations, which would speak first where a state is one of tensors alone."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def test_a_state_of_other_rows_is_reported(model, unchecked):
    with pytest.raises(ShapeError, match=r"the inputs have 4 rows, as \(4, 3\), and the state has 2; .*start\(4\)"):
        model.step(model.start(2), torch.zeros(4, 3))


def test_inputs_that_fit_are_read(model):
    outputs = model(torch.ones(2, 5, 3))
    state = model.start(2)
    for now in range(5):
        output, state, _ = model.step(state, torch.ones(2, 3))
        torch.testing.assert_close(output, outputs[:, now])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 5, 3), ()])
def test_sequences_of_another_form_are_reported(shape):
    with pytest.raises(ShapeError, match=r"expected \(batch, time, inputs\) and inputs=3"):
        check_sequences(torch.zeros(shape), 3)


@pytest.mark.parametrize("shape", [(3,), (2, 1, 3), ()])
def test_steps_of_another_form_are_reported(shape):
    with pytest.raises(ShapeError, match=r"expected \(batch, inputs\) and inputs=3"):
        check_step(torch.zeros(shape), 3, 2)
