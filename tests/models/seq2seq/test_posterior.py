"""Posteriors of links: against a decoder that is made to read one position alone, and by hand."""

import pytest
import torch

from regard.attention.attended import Attended
from regard.errors import RegardError
from regard.models.seq2seq.posterior import posterior
from tests.models.variants import VARIANTS, pairs, translator

MODELS = [name for name in VARIANTS if "local" not in name and "fixed" not in name]


def plain(model, batch):
    """Position by position, each by a decoder whose attention gives that position's state, whatever it is asked."""
    decoder, memory = model.decoder, model.encode(batch.source, batch.source_lengths)
    look = decoder.source.forward
    state = decoder.start(memory, len(batch.source))
    result = torch.zeros(*batch.target_in.shape, batch.source.shape[1], dtype=torch.float64)
    for step in range(batch.target_in.shape[1]):
        word = decoder.embedding(batch.target_in[:, step : step + 1])
        reading = decoder.read(state.fixed, state.moving, word)
        joint = torch.zeros(batch.source.shape, dtype=torch.float64)
        for position in range(batch.source.shape[1]):
            context = memory.states[:, position : position + 1]
            decoder.source.forward = lambda *asked, context=context: (Attended(context), look(*asked)[1])
            features = decoder.read(state.fixed, state.moving, word).features[:, 0]
            decoder.source.forward = look
            said = decoder.vocabulary(features).softmax(-1)
            for row, target in enumerate(batch.target_out[:, step].tolist()):
                joint[row, position] = reading.attended.weights[row, 0, position] * said[row, target]
        result[:, step] = joint / joint.sum(-1, keepdim=True)
        state = state._replace(moving=reading.moving)
    return result


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_the_posterior_of_every_decoder_is_bayes(name):
    model, batch = translator(name), pairs()
    memory = model.encode(batch.source, batch.source_lengths)
    found = posterior(model.decoder, memory, batch.target_in, batch.target_out)
    torch.testing.assert_close(found, plain(model, batch), atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 5, dtype=torch.float64))
    hidden = torch.arange(5) >= batch.source_lengths[:, None]
    assert not found.transpose(1, 2)[hidden].any()  # padding has exactly 0


@torch.no_grad()
def test_batch_mates_change_no_posterior():
    """B22's kind: a row in a batch is that row alone."""
    model, batch = translator("luong-feeding"), pairs()
    together = posterior(
        model.decoder, model.encode(batch.source, batch.source_lengths), batch.target_in, batch.target_out
    )
    for row in range(3):
        one = batch.row(row)
        alone = posterior(model.decoder, model.encode(one.source, one.source_lengths), one.target_in, one.target_out)
        steps, positions = alone.shape[1:]
        torch.testing.assert_close(together[row : row + 1, :steps, :positions], alone, atol=1e-12, rtol=1e-9)


@torch.no_grad()
def test_a_decoder_that_ignores_its_context_learns_nothing_from_the_word():
    """Where p(y | i) is the same for all i, the posterior is the attention itself."""
    model, batch = translator("luong-additive"), pairs()
    model.decoder.readout.weight[:, model.decoder.dim :] = 0
    memory = model.encode(batch.source, batch.source_lengths)
    weights = model.decoder.step(model.decoder.start(memory, 3), batch.target_in).attended["source"].weights
    found = posterior(model.decoder, memory, batch.target_in, batch.target_out)
    torch.testing.assert_close(found, weights, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "chosen", "said"),
    [
        ("fixed-every_step", {}, "without attention"),
        ("luong-additive-local-p", {}, "window"),
        ("luong-additive", {"normalizer": "sigmoid"}, "sum to 1"),
    ],
)
def test_what_has_no_posterior_says_so(name, chosen, said):
    model, batch = translator(name, **chosen), pairs()
    memory = model.encode(batch.source, batch.source_lengths)
    with pytest.raises(RegardError, match=said):
        posterior(model.decoder, memory, batch.target_in, batch.target_out)
