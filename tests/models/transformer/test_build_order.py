"""Order in the buildings themselves: W10, and the Transformer over sequences."""

import pytest
import torch

from regard.models.memory.sequences import build
from regard.models.transformer.encoder import TransformerEncoder
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings, TransformerSequenceSettings

KINDS = ("sinusoidal", "learned", "rotary", "alibi", "t5", "shaw")
IDS = torch.tensor([[5, 9, 7, 11, 6]])
ORDER = [3, 0, 4, 2, 1]


def tiny(position: str) -> TransformerLanguageSettings:
    return TransformerLanguageSettings(dim=12, heads=2, layers=2, position=position, dropout=0.0)


def moved(model, read) -> float:
    """How far the outputs of the permuted pieces are from the permuted outputs."""
    torch.manual_seed(1)
    for weights in model.parameters():  # at their start they are so small that positions hardly show
        torch.nn.init.normal_(weights, std=0.3)
    with torch.no_grad():
        plain, permuted = read(model.double().eval(), IDS), read(model, IDS[:, ORDER])
    return float((permuted - plain[:, ORDER]).abs().max())


def states(model, ids):
    return model(ids)


def logits(model, ids):
    return model.read(ids, None)[0]


def test_an_encoder_without_positions_reads_a_bag_W10():
    assert moved(TransformerEncoder(tiny("none"), 13), states) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_with_positions_of_any_kind_it_does_not_W10(kind):
    assert moved(TransformerEncoder(tiny(kind), 13), states) > 1e-3


def test_a_causal_model_knows_order_without_positions_W10():
    assert moved(TransformerLanguageModel(tiny("none"), 13), logits) > 1e-3


@pytest.mark.parametrize("kind", ("none", *KINDS))
def test_a_sequence_read_by_steps_is_the_sequence_read_at_once(kind):
    torch.manual_seed(0)
    settings = TransformerSequenceSettings(dim=12, heads=2, layers=2, position=kind, context=7)
    model = build(settings, 5, 3).double().eval()
    inputs = torch.randn(2, 7, 5, dtype=torch.float64)
    state, outputs = model.start(2), []
    for now in inputs.unbind(1):
        stepped = model.step(state, now)
        state = stepped.state
        outputs.append(stepped.output)
    torch.testing.assert_close(torch.stack(outputs, 1), model(inputs), rtol=0, atol=1e-10)
    assert stepped.attended["self 1"].weights.shape == (2, 2, 1, 7)
