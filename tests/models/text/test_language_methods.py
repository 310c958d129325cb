"""Models of text: what a subclass overrides is obeyed in training as it is when the model writes."""

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from regard.errors import ConfigError
from regard.layers.objective import objective
from regard.models.text.language import LanguageModel
from regard.models.text.language_settings import LSTMLanguageSettings, LSTMNLanguageSettings
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings, TransformerTranslatorSettings
from regard.models.transformer.translator import TransformerTranslator
from tests.models.variants import pairs, translator

WORDS = 23
SIZES = {"embedding_dim": 7, "width": 5}
MADE = {
    "lstm": lambda: LanguageModel(LSTMLanguageSettings(**SIZES), WORDS),
    "lstmn": lambda: LanguageModel(LSTMNLanguageSettings(**SIZES, attention=3), WORDS),
    "transformer": lambda: TransformerLanguageModel(
        TransformerLanguageSettings(dim=8, heads=2, layers=2, dropout=0.0, position="sinusoidal"), WORDS
    ),
}


def noisy(model):
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def language(kind):
    torch.manual_seed(0)
    return noisy(MADE[kind]())


def text():
    return torch.randint(1, WORDS, (2, 7), generator=torch.Generator().manual_seed(1))


def written(model, ids):
    """Logits after each piece, one piece a step."""
    state, logits = model.start(None, len(ids)), []
    for one in ids.split(1, dim=1):
        step = model.step(state, one)
        state = step.state
        logits.append(step.logits)
    return torch.cat(logits, dim=1)


def own(module, **methods):
    module.__class__ = type("Own", (type(module),), methods)
    return module


def of_half(plain):
    def read(self, ids, state):
        logits, state = plain(self, ids, state)
        return logits / 2, state

    return read


def after_a_word(plain):
    """The text begins after a word that nobody has asked for, as after a learned prompt."""

    def start(self, memory, batch):
        state = plain(self, memory, batch)
        return state._replace(moving=super(type(self), self).step(state, torch.full((batch, 1), 5)).state.moving)

    return start


CHANGES = [("read", of_half), ("start", after_a_word)]


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize(("method", "change"), CHANGES, ids=lambda one: one if isinstance(one, str) else "")
@pytest.mark.parametrize("kind", MADE)
def test_a_language_model_learns_what_it_writes(kind, method, change, gradient):
    model, ids = language(kind), text()
    with torch.set_grad_enabled(gradient):
        before, plain = model(ids), written(model, ids)
        own(model, **{method: change(getattr(type(model), method))})
        logits = written(model, ids[:, :-1])
        assert not torch.allclose(logits, plain[:, :-1], atol=1e-3)
        told = model(ids)
        assert_close(told.total, objective(logits.flatten(0, 1), ids[:, 1:].flatten()).total, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(told.total, before.total, atol=1e-3)
        assert_close(model.step(model.start(None, 2), ids).logits, written(model, ids), rtol=1e-5, atol=1e-5)


def test_a_start_of_ones_own_gets_its_gradient():
    model, ids = language("transformer"), text()
    model.prompt = torch.nn.Parameter(torch.randn(1, 1, 8))

    def start(self, memory, batch):
        state = TransformerLanguageModel.start(self, memory, batch)
        return state._replace(moving=self.stack(self.prompt.expand(batch, -1, -1), cache=state.moving).cache)

    own(model, start=start)(ids).total.backward()
    assert model.prompt.grad.abs().max() > 1e-4


@pytest.mark.parametrize(("method", "change"), CHANGES, ids=lambda one: one if isinstance(one, str) else "")
def test_packed_documents_are_refused_where_a_method_knows_none(method, change):
    model, ids = language("transformer"), text()
    documents = torch.zeros_like(ids)
    model(ids, documents=documents)
    own(model, **{method: change(getattr(type(model), method))})
    with pytest.raises(ConfigError, match="`start` or a `read` of its own, which knows no packed documents"):
        model(ids, documents=documents)


@torch.no_grad()
def test_a_read_put_on_a_model_is_called_for_one_word():
    model, ids = language("transformer"), text()[:1]
    plain, whole = written(model, ids), model.read

    def read(ids, state):
        logits, state = whole(ids, state)
        return logits / 2, state

    model.read = read
    assert_close(written(model, ids), plain / 2, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_positions_put_on_a_model_are_asked_for_one_word():
    model, ids = language("transformer"), text()[:1]
    add = model.stack.position.add
    model.stack.position.add = lambda x, positions: 2 * add(x, positions)
    assert_close(written(model, ids), model.step(model.start(None, 1), ids).logits, rtol=1e-5, atol=1e-5)


# --- translators -----------------------------------------------------------------------------------------------------


def test_a_start_of_a_transformers_decoder_is_obeyed_in_training():
    """Both what it fixes and what it has read before."""
    torch.manual_seed(0)
    settings = TransformerTranslatorSettings(dim=8, heads=2, encoder_layers=1, decoder_layers=2, dropout=0.0)
    model, ids = noisy(TransformerTranslator(settings, WORDS, WORDS)), text()
    lengths = torch.tensor([4, 4])
    batch = SimpleNamespace(
        source=ids[:, :4], source_lengths=lengths, target_in=ids[:, 3:], target_out=ids[:, 3:], target_lengths=lengths
    )
    before, kind = model(batch).total, type(model.decoder)

    def start(self, memory, batch):
        state = kind.start(self, memory._replace(states=memory.states / 2), batch)
        return state._replace(moving=self.step(state, torch.full((batch, 1), 5)).state.moving)

    own(model.decoder, start=start)
    state = model.decoder.start(model.encode(batch.source, lengths), 2)
    logits = model.decoder.step(state, batch.target_in).logits
    found = model(batch).total
    assert_close(found, objective(logits.flatten(0, 1), batch.target_out.flatten()).total, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, before, atol=1e-3)


RECURRENT = ["luong-additive", "luong-gru-general", "luong-feeding", "bahdanau-gru", "fixed-every_step"]


def halved_features(plain):
    def features(self, *given):
        reading = plain(self, *given)
        return reading._replace(features=reading.features / 2)

    return features


@pytest.mark.parametrize("where", ["decoder", "translator"])
@pytest.mark.parametrize("name", RECURRENT)
def test_features_of_ones_own_are_learned_from(name, where):
    model, batch = translator(name), pairs()
    plain, _ = model.features(batch)
    part, method = (model.decoder, "features") if where == "decoder" else (model, "reading")
    own(part, **{method: halved_features(getattr(type(part), method))})
    found, targets = model.features(batch)
    kept = torch.arange(batch.target_in.shape[1]) < batch.target_lengths[:, None]
    assert_close(found, model.reading(batch).features[kept], rtol=1e-10, atol=1e-12)
    assert_close(found, plain / 2, rtol=1e-10, atol=1e-12)
    assert torch.equal(targets, batch.target_out[kept])


ATTENTIVE = [name for name in RECURRENT if "fixed" not in name]


@pytest.mark.parametrize("name", ATTENTIVE)
def test_what_another_attention_reads_is_learned_from(name):
    """In a loop the weights alone are asked for, but not of an attention that may read otherwise."""
    model, batch = translator(name), pairs()
    plain, _ = model.features(batch)
    attention, kind = model.decoder.source.attention, type(model.decoder.source.attention)

    def forward(self, *given, **named):
        attended = kind.forward(self, *given, **named)
        return attended if attended.context is None else attended.with_context(attended.context / 2)

    own(attention, forward=forward)
    found, _ = model.features(batch)
    kept = torch.arange(batch.target_in.shape[1]) < batch.target_lengths[:, None]
    assert_close(found, model.reading(batch).features[kept], rtol=1e-10, atol=1e-12)
    assert not torch.allclose(found, plain, atol=1e-4)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_dropout_of_an_attention_is_drawn_in_training(name):
    model, batch = translator(name).train(), pairs()
    plain, _ = model.features(batch)
    model.decoder.source.attention.dropout = 0.5
    torch.manual_seed(3)
    one, _ = model.features(batch)
    other, _ = model.features(batch)
    assert not torch.allclose(one, other, atol=1e-4)
    assert_close(model.eval().features(batch)[0], plain, rtol=1e-10, atol=1e-12)
