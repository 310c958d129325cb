"""The first weights of a stack have the spread that their papers give, and Shaw's positions their clip."""

import math

import pytest
import torch
from torch import nn

from regard.models.transformer.build import transformer_stack
from regard.models.transformer.encoder import TransformerEncoder
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings, TransformerTranslatorSettings
from regard.models.transformer.translator import TransformerTranslator

DIM, HIDDEN, HEADS = 64, 176, 4


def assert_spread(weight, expected):
    """A sample of n numbers of N(0, σ²): its mean is off by σ/√n and its deviation by σ/√2n; five times as much fails.

    Of 64 × 64 weights that is 8 % and 6 %.
    """
    weight = weight.detach().double()
    n = weight.numel()
    assert n >= DIM * DIM
    assert abs(float(weight.mean())) < 5 * expected / math.sqrt(n)
    assert float(weight.square().mean().sqrt()) == pytest.approx(expected, rel=5 / math.sqrt(2 * n))
    assert float((weight.abs() > 2 * expected).double().mean()) == pytest.approx(0.0455, abs=0.02)  # a normal law


def spreads(stack, base, added):
    """Each linear layer by what it is: `base` of its inputs, times `added` where it is added to the stream."""
    checked = set()
    for name, module in stack.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        role = name.split(".", 2)[2]
        expected = base(module.in_features) * (added if role.endswith("output") else 1.0)
        assert_spread(module.weight, expected)
        assert module.bias is None or (module.bias == 0).all()
        checked.add(role)
    return checked


@pytest.mark.parametrize("layers", (2, 7))
@pytest.mark.parametrize("order", ("pre", "post"))
@pytest.mark.parametrize("initial", ("small", "fan_in"))
@pytest.mark.parametrize("across", (False, True))
def test_linear_layers_of_a_stack(initial, order, layers, across):
    """N(0, 0.02²) as GPT's (Radford et al. 2018), or N(0, 1/inputs); in pre-norm stacks what is added to the stream is
    divided by √(2 · layers) as GPT-2's (Radford et al. 2019, section 2.3: a block of it adds twice)."""
    torch.manual_seed(11)
    settings = TransformerLanguageSettings(
        dim=DIM, heads=HEADS, layers=layers, feed_forward_dim=HIDDEN, norm_order=order, initial=initial
    )
    stack = transformer_stack(settings, layers, causal=True, across=across)
    base = {"small": lambda inputs: 0.02, "fan_in": lambda inputs: 1 / math.sqrt(inputs)}[initial]
    checked = spreads(stack, base, 1 / math.sqrt(2 * layers) if order == "pre" else 1.0)
    roles = {"attention.inputs", "attention.output", "feed_forward.inputs", "feed_forward.output"}
    assert checked == roles | ({"across.query", "across.memory", "across.output"} if across else set())


def test_a_translators_sides_are_divided_by_their_own_depth():
    torch.manual_seed(12)
    settings = TransformerTranslatorSettings(
        dim=DIM, heads=HEADS, encoder_layers=2, decoder_layers=8, feed_forward_dim=HIDDEN, norm_order="pre"
    )
    model = TransformerTranslator(settings, 67, 71)
    spreads(model.encoder, lambda inputs: 0.02, 1 / math.sqrt(2 * 2))
    spreads(model.decoder.stack, lambda inputs: 0.02, 1 / math.sqrt(2 * 8))


@pytest.mark.parametrize("scaled", (False, True))
def test_words_and_the_readout(scaled):
    """What is read out begins small whatever the stack; words that are scaled by √dim have a spread of 1 then."""
    torch.manual_seed(13)
    settings = TransformerLanguageSettings(
        dim=DIM, heads=HEADS, layers=2, tied=False, initial="fan_in", scale_embedding=scaled
    )
    model = TransformerLanguageModel(settings, 97)
    assert_spread(model.readout.weight, 0.02)
    assert_spread(model.embedding.weight, 1 / math.sqrt(DIM) if scaled else 0.02)


@pytest.mark.parametrize("kind", (TransformerEncoder, TransformerLanguageModel))
def test_shaws_distances_are_clipped_at_16(kind):
    """Shaw et al. 2018, section 4.1: k = 16; a vector for each distance from −16 to 16."""
    settings = TransformerLanguageSettings(dim=DIM, heads=HEADS, layers=3, position="shaw")
    model = kind(settings, 31)
    scores = [block.attention.score for block in model.stack.blocks]
    assert [score.clip for score in scores] == [16] * 3
    assert [tuple(score.weight.shape) for score in scores] == [(33, DIM // HEADS)] * 3
    assert len({score.weight.data_ptr() for score in scores}) == 3  # a layer has its own


def test_beyond_a_distance_of_16_shaws_model_cannot_tell_places_apart():
    """One key that differs, 16 or more positions back: moved further, the last token attends to it the same."""
    torch.manual_seed(14)
    settings = TransformerLanguageSettings(dim=DIM, heads=HEADS, layers=1, dropout=0.0, position="shaw")
    model = TransformerLanguageModel(settings, 31).double().eval()
    for score in (block.attention.score for block in model.stack.blocks):
        nn.init.normal_(score.weight)

    def last(distance):
        ids = torch.full((1, 24), 5)
        ids[0, 23 - distance] = 9
        return model.logits(model.stack(model.embedding(ids)).output)[0, -1]

    torch.testing.assert_close(last(16), last(17))
    torch.testing.assert_close(last(16), last(21))
    assert not torch.allclose(last(15), last(16), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(last(4), last(5), rtol=1e-4, atol=1e-6)
