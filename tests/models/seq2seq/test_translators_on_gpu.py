"""Whole models on a GPU beside float64 on a processor: updates of translators, and texts read with a cache.

The same tests run on a processor in float32, which shows that they are right where there is no GPU.
"""

import copy
import dataclasses

import pytest
import torch

from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings, TransformerTranslatorSettings
from regard.models.transformer.translator import TransformerTranslator
from tests.models.variants import SOURCE_WORDS, TARGET_WORDS, Pairs, pairs, translator

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
RECURRENT = "luong-feeding", "luong-gru-general", "luong-additive-local-p", "bahdanau-coverage"
SIZES = {"dim": 16, "heads": 2, "dropout": 0.0}
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.fixture(autouse=True)
def exact_products():
    """Products of float32 in float32, not in TF32, which torch takes for recurrent layers on a GPU unasked."""
    backends = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = False
    yield
    for backend, allowed in zip(backends, before, strict=True):
        backend.allow_tf32 = allowed


def moved(batch: Pairs, device: str) -> Pairs:
    return Pairs(*(getattr(batch, field.name).to(device) for field in dataclasses.fields(batch)))


def made(name: str) -> torch.nn.Module:
    """In float64."""
    if name != "transformer":
        return translator(name)
    torch.manual_seed(0)
    settings = TransformerTranslatorSettings(**SIZES, encoder_layers=2, decoder_layers=2)
    return TransformerTranslator(settings, SOURCE_WORDS, TARGET_WORDS).double()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*RECURRENT, "transformer"])
def test_an_update_of_a_translator(name, device):
    """The loss and every gradient are those of float64; a step of the optimizer lowers the loss."""
    exact, batch = made(name).train(), pairs()
    ours = copy.deepcopy(exact).float().to(device)
    placed = moved(batch, device)
    optimizer = torch.optim.AdamW(ours.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = ours(placed, smoothing=0.1).total
        loss.backward()
        losses.append(loss.item())
        if len(losses) == 1:
            theirs = exact(batch, smoothing=0.1).total
            theirs.backward()
            torch.testing.assert_close(losses[0], theirs.item(), **CLOSE)
            for (called, one), other in zip(ours.named_parameters(), exact.parameters(), strict=True):
                assert (one.grad is None) == (other.grad is None), called
                if one.grad is not None:
                    torch.testing.assert_close(one.grad.to("cpu", torch.float64), other.grad, **CLOSE)
        optimizer.step()
    assert losses[1] < losses[0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_text_read_with_a_cache(device):
    """Token by token as at once, and both as in float64, where a row begins with padding."""
    torch.manual_seed(0)
    exact = TransformerLanguageModel(TransformerLanguageSettings(**SIZES, layers=2), TARGET_WORDS).double().eval()
    ids = torch.randint(1, TARGET_WORDS, (3, 11))
    ids[1, :4] = 0
    ours, placed = copy.deepcopy(exact).float().to(device), ids.to(device)
    with torch.no_grad():
        theirs = exact.step(exact.start(None, 3), ids).logits
        at_once = ours.step(ours.start(None, 3), placed).logits
        state, each = ours.start(None, 3), []
        for one in placed.split(1, 1):
            step = ours.step(state, one)
            state = step.state
            each.append(step.logits)
    real = ids != 0
    for logits in (at_once, torch.cat(each, 1)):
        assert logits.device.type == device
        torch.testing.assert_close(logits.to("cpu", torch.float64)[real], theirs[real], **CLOSE)
