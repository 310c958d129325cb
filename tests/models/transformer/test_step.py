"""A language model's step of one word in one compiled call, beside the model's own calls."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.testing import assert_close

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ShapeError, TooLong
from regard.kernels.native import compiler
from regard.kernels.transformer.step import Steps
from regard.layers.layout import lay_out_for_steps
from regard.models.transformer import language, step as transformer_step
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings
from tests.native import needs_compiler

pytestmark = needs_compiler

WORDS = 47


def made(kind=TransformerLanguageModel, **chosen):
    sizes = {"dim": 22, "heads": 2, "layers": 3, "context": 41, "feed_forward_dim": 37, "dropout": 0.0}
    torch.manual_seed(3)
    model = kind(TransformerLanguageSettings(**(sizes | chosen)), WORDS)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def text(length=13):
    return torch.randint(1, WORDS, (1, length), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def read(model, ids, prompt=0):
    """A prompt, then a word at a time: all logits, and the last step."""
    state, logits = model.start(None, 1), []
    for part in ([ids[:, :prompt]] if prompt else []) + list(ids[:, prompt:].split(1, dim=1)):
        step = model.step(state, part)
        state = step.state
        logits.append(step.logits)
    return torch.cat(logits, dim=1), step


def counted(monkeypatch):
    """The words whose steps were made in one call."""
    words = []
    whole = Steps.write

    def write(self, word, *given):
        words.append(word)
        return whole(self, word, *given)

    monkeypatch.setattr(Steps, "write", write)
    return words


CHOICES = [
    {},
    {"tied": False},
    {"position": "none", "key_heads": 1},
    {"position": "learned", "norm": "rms", "activation": "swiglu", "bias": False},
    {"position": "learned", "tied": False, "norm_order": "post"},
    {"position": "sinusoidal", "activation": "relu"},
    {"position": "alibi", "window": 7},
    {"position": "t5", "scale_embedding": True},
]


@pytest.mark.parametrize("chosen", CHOICES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("prompt", [0, 5])
def test_a_word_gives_the_logits_of_the_whole_text(chosen, turned, prompt, monkeypatch):
    """As the uncached model has them, and the cache and the looks of the model's own calls."""
    model = made(**chosen)
    if turned:
        lay_out_for_steps(model)  # the table of words as well where it is that of the logits
    ids, words = text(), counted(monkeypatch)
    logits, last = read(model, ids, prompt)
    assert len(words) == min(13, chosen.get("window", 13)) - prompt
    with torch.no_grad():
        uncached = model.logits(model.stack(model.embedding(ids)).output)
    assert_close(logits, uncached, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(language, "one_word", lambda *given: None)
    monkeypatch.setattr("regard.layers.transformer.stack.steps_of", lambda *given: None)
    others, usual = read(model, ids, prompt)
    assert_close(logits, others, rtol=1e-5, atol=1e-5)
    assert_close(last.state.moving.states, usual.state.moving.states, rtol=1e-5, atol=1e-5)
    assert torch.equal(last.state.moving.counted, usual.state.moving.counted)
    assert list(last.attended) == list(usual.attended)
    for name, looked in usual.attended.items():
        assert_close(last.attended[name].weights, looked.weights, rtol=1e-4, atol=1e-5)
        assert_close(last.attended[name].context, looked.context, rtol=1e-5, atol=1e-5)


def test_what_the_loop_does_not_know_goes_the_usual_way(monkeypatch):
    """Gradients, several rows or words, padding, other types, training, turned positions, another kind of model."""

    class Louder(TransformerLanguageModel):
        def logits(self, hidden):
            return 2 * super().logits(hidden)

    words, ids = counted(monkeypatch), text(3)
    model = made()
    model.step(model.start(None, 1), ids[:, :1])  # with gradients
    with torch.no_grad():
        model.step(model.start(None, 2), ids[:, :1].expand(2, -1))
        model.step(model.start(None, 1), ids[:, :2])
        assert model.step(model.start(None, 1), torch.zeros(1, 1).long()).state.moving.keep is not None
        with torch.autocast("cpu", torch.bfloat16):
            model.step(model.start(None, 1), ids[:, :1])
        for other in (
            made().double(),
            made().train(),
            made(dim=24, position="rotary"),
            made(position="shaw"),
            made(Louder),
        ):
            read(other, ids)
        assert words == []
        int32 = model.step(model.start(None, 1), ids[:, :1].int()).logits
        assert words == []
        assert_close(model.step(model.start(None, 1), ids[:, :1]).logits, int32, rtol=1e-5, atol=1e-5)
    assert words == [int(ids[0, 0])]
    monkeypatch.setattr(compiler, "library", lambda name: None)
    read(made(), ids)
    assert len(words) == 1


@torch.no_grad()
def test_what_is_refused_stays_refused():
    """An id or a position without a row, a cache of another model or of other rows."""
    model = made(position="learned", context=4)
    state = read(model, text(3))[1].state
    for word in (WORDS, -1):
        with pytest.raises(IndexError):
            model.step(state, torch.tensor([[word]]))
    state = read(model, text(4))[1].state
    with pytest.raises(TooLong, match="0 to 3"):
        model.step(state, text(1))
    other = read(made(heads=1, position="learned", context=4), text(2))[1].state
    with pytest.raises(RuntimeError):
        model.step(other, text(1))
    cache = read(model, text(2))[1].state.moving
    cache.counted = cache.counted.expand(2)
    with pytest.raises(ShapeError):
        model.step(state._replace(moving=cache), text(1))


@torch.no_grad()
def test_a_state_may_be_continued_twice():
    """The longer caches do not write over each other."""
    model, ids = made(), text()
    state = read(model, ids[:, :5])[1].state
    one, other = (model.step(state, torch.tensor([[word]])) for word in (7, 8))
    for step, word in ((one, 7), (other, 8)):
        whole = torch.cat((ids[:, :5], torch.tensor([[word], [9]]).T), dim=1)
        found = model.step(step.state, torch.tensor([[9]])).logits
        assert_close(found, read(model, whole)[0][:, -1:], rtol=1e-5, atol=1e-5)


def test_threads_change_no_bit():
    model, ids = made(dim=256, heads=4, feed_forward_dim=5000, layers=1), text(3)
    one, threads = read(model, ids)[0], torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(read(model, ids)[0], one)
    finally:
        torch.set_num_threads(threads)


# --- what may change between two steps of one text -------------------------------------------------------------------


class Doubled(nn.Module):
    def __init__(self, layer=None):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return 2 * (x if self.layer is None else self.layer(x))


def instead(module):
    forward = module.forward
    module.forward = lambda *given, **named: 2 * forward(*given, **named)


def narrower(model):
    model.readout.weight = nn.Parameter(model.readout.weight[:31].contiguous())


CHANGES = {
    "a hook on the words": lambda model: model.embedding.register_forward_hook(lambda *given: 2 * given[-1]),
    "a hook on the stack": lambda model: model.stack.register_forward_hook(
        lambda *given: given[-1]._replace(output=2 * given[-1].output)
    ),
    "a hook on the logits": lambda model: model.readout.register_forward_pre_hook(lambda *given: (2 * given[-1][0],)),
    "another forward of the words": lambda model: instead(model.embedding),
    "another forward of the logits": lambda model: instead(model.readout),
    "other logits": lambda model: setattr(model, "logits", lambda hidden: hidden * 2),
    "an adapter": lambda model: setattr(model, "readout", Doubled(model.readout)),
    "other words": lambda model: setattr(model, "embedding", nn.Embedding(WORDS, 22)),
    "a parametrization of the words": lambda model: parametrize.register_parametrization(
        model.embedding, "weight", Doubled()
    ),
    "a parametrization of the logits": lambda model: parametrize.register_parametrization(
        model.readout, "weight", Doubled()
    ),
    "a mask": lambda model: prune.l1_unstructured(model.embedding, "weight", amount=0.5),
    "fewer logits": narrower,
    "a bias": lambda model: setattr(model.readout, "bias", nn.Parameter(torch.randn(WORDS))),
    "words in place": lambda model: model.embedding.weight.mul_(2),
    "words by data": lambda model: setattr(model.embedding.weight, "data", 2 * model.embedding.weight.data),
    "places": lambda model: setattr(model.stack.position, "weight", nn.Parameter(torch.randn(41, 22))),
    "places with gaps": lambda model: setattr(model.stack.position, "weight", nn.Parameter(torch.randn(22, 41).T)),
    "no places": lambda model: setattr(model.stack, "position", None),
    "a network's forward": lambda model: instead(model.stack.blocks[1].feed_forward.output),
    "other weights": lambda model: model.load_state_dict(
        {name: 1.5 * value for name, value in model.state_dict().items()}, assign=True
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_a_step_after_a_change_is_that_of_the_parts(change, monkeypatch):
    model, ids = made(position="learned", tied=False), text(5)
    words = counted(monkeypatch)
    before, last = read(model, ids[:, :4])
    assert len(words) == 4
    CHANGES[change](model)
    found = model.step(last.state, ids[:, 4:]).logits
    monkeypatch.setattr(language, "one_word", lambda *given: None)
    monkeypatch.setattr("regard.layers.transformer.stack.steps_of", lambda *given: None)
    assert_close(found, model.step(last.state, ids[:, 4:]).logits, rtol=1e-5, atol=1e-5)


# --- within a search -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [{}, {"position": "learned", "tied": False}, {"window": 5}], ids=str)
@pytest.mark.parametrize("settings", [{}, {"beam": 3, "n_best": 2}, {"sample": True, "seed": 5}], ids=str)
def test_a_search_finds_what_it_finds_without_the_loop(chosen, settings, monkeypatch):
    model, prompt = made(**chosen), text(4)
    settings = SearchSettings(max_length=17, min_length=3, **settings)

    def found():
        return search(model, None, 1, begin=prompt, end=3, settings=settings, forbidden=(0, 1))[0]

    words = counted(monkeypatch)
    ours = found()
    assert bool(words) == (settings.beam == 1)
    monkeypatch.setattr(compiler, "library", lambda name: None)
    for one, other in zip(ours, found(), strict=True):
        assert one.ids == other.ids and one.finished == other.finished
        assert one.log_probability == pytest.approx(other.log_probability, rel=1e-5)


def test_a_search_inspects_the_parts_once(monkeypatch):
    """And again in the next one, which finds what was changed in between."""
    model, looked = made(), []
    whole = transformer_step._steps
    monkeypatch.setattr(transformer_step, "_steps", lambda model: looked.append(1) or whole(model))
    settings = SearchSettings(max_length=9)
    before = search(model, None, 1, begin=5, end=None, settings=settings)[0][0]
    assert len(looked) == 1
    model.readout.register_forward_hook(lambda *given: -given[-1])
    after = search(model, None, 1, begin=5, end=None, settings=settings)[0][0]
    assert after.ids[0] != before.ids[0] and len(looked) > 1


def test_a_search_whose_steps_change_the_model_notices_it():
    """A step that somebody put in the place of the model's own, and a decoder around it, may change it on their way."""

    def found(wrap):
        model = made(tied=False)
        step = model.step

        def louder(state, inputs):
            model.readout.weight = nn.Parameter(model.readout.weight.roll(1, dims=0))
            return step(state, inputs)

        return search(wrap(model, louder), None, 1, begin=5, end=None, settings=SearchSettings(max_length=9))[0][0].ids

    class Around:
        alignment = None

        def __init__(self, model, step):
            self.start, self.step = model.start, step

    def instead(model, step):
        model.step = step
        return model

    def usual(model, step):
        model.embedding.register_forward_hook(lambda *given: None)  # no step in one call
        return Around(model, step)

    assert found(instead) == found(Around) == found(usual)
