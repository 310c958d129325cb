"""One task over every kind of translator: settings, guided alignment, ensembles, and what a kind does not have."""

import pytest
import torch

from regard.data.tokenizers.factory import train_tokenizer
from regard.data.translation.settings import DataSettings
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, RegardError
from regard.models.seq2seq.guided import guidance_of, guided_objective
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.seq2seq.translators import build_translator
from regard.models.transformer.settings import TransformerTranslatorSettings
from regard.tasks.core.config import check, parse_assignments
from regard.tasks.translation.align import align
from regard.tasks.translation.data import Tokenizers, prepare_corpus
from regard.tasks.translation.ensemble import EnsembleModel
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.settings import TranslationSettings
from regard.tasks.translation.steps import translation_steps
from regard.tasks.translation.task import TASK

TEXTS = ["the dog runs in the snow .", "der Hund rennt im Schnee ."]
SMALL = {"dim": 14, "heads": 2, "encoder_layers": 2, "decoder_layers": 3, "feed_forward_dim": 11}


def transformer(seed=0, texts=TEXTS, **model):
    torch.manual_seed(seed)
    return made(TransformerTranslatorSettings(**{**SMALL, "initial": "fan_in", **model}), texts)


def recurrent(seed=0):
    torch.manual_seed(seed)
    return made(RecurrentSettings(cell="gru", embedding_dim=7, encoder_dim=5, attention_dim=3))


def made(model, texts=TEXTS):
    tokenizer = train_tokenizer("words", texts, 61)
    settings = TranslationSettings(data=DataSettings(max_length=40, phrases={}), model=model)
    return TranslationPredictor(
        build_translator(model, len(tokenizer), len(tokenizer)), Tokenizers(tokenizer, tokenizer), settings
    )


def test_settings_that_do_not_say_their_kind_are_recurrent():
    """Runs from before there were kinds load as they did."""
    old = {"task": "translation", "data": {"phrases": {}}, "model": {"cell": "gru", "attention": "general"}}
    assert isinstance(check(TranslationSettings, old, also=TASK.faults).model, RecurrentSettings)
    named = parse_assignments(["model.kind=transformer", "model.dim=64", "model.encoder_layers=3"])
    settings = check(TranslationSettings, {**named, "data": {"phrases": {}}}, also=TASK.faults)
    assert isinstance(settings.model, TransformerTranslatorSettings) and settings.model.dim == 64


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"kind": "transfomer"}, "model.kind: 'transfomer' is not one of its values. Did you mean 'transformer'?"),
        ({"kind": "transformer", "cell": "gru"}, "model.cell: no such setting"),
        ({"kind": "transformer", "attention": "nothing"}, "model.attention: no such setting"),
        ({"kind": "transformer", "dim": 10, "heads": 3}, "heads must share dim evenly"),
        ({"dim": 10}, "model.dim: no such setting"),
    ],
)
def test_settings_of_another_kind_are_named(model, message):
    with pytest.raises(ConfigError) as error:
        check(TranslationSettings, {"data": {"phrases": {}}, "model": model}, also=TASK.faults)
    assert message in str(error.value)


def test_what_is_not_kept_cannot_be_guided():
    tree = {"data": {"phrases": {}}, "model": {"kind": "transformer"}, "guided_alignment": 0.1}
    with pytest.raises(ConfigError, match=r"training\.recompute does not keep"):
        check(TranslationSettings, {**tree, "training": {"recompute": True}}, also=TASK.faults)


def test_learned_positions_reach_as_far_as_a_translation_may_b32():
    """A line of 20 pieces may become 2 · 20 + 10: a search that goes there would end the run at a validation."""
    tree = {"data": {"phrases": {}, "max_length": 20}, "model": {"kind": "transformer", "position": "learned"}}
    for context, search in [(50, {}), (20, {"max_length": 20})]:
        settings = {**tree, "model": {**tree["model"], "context": context}, "search": search}
        check(TranslationSettings, settings, also=TASK.faults)
        settings["model"]["context"] -= 1
        with pytest.raises(ConfigError, match=f"give model.context={context}, or a smaller data.max_length"):
            check(TranslationSettings, settings, also=TASK.faults)


def test_a_transformers_attention_is_guided_like_any_other():
    """The value is that of the words; the gradient is that of the words and of the mean of the heads' weights."""
    settings = check(
        TranslationSettings,
        {
            "data": {"phrases": {"count": 40}, "tokenizer": "words", "held_out": 5, "tokens": 300},
            "model": {"kind": "transformer", **SMALL, "dropout": 0.0},
            "guided_alignment": 0.7,
        },
    )
    corpus = prepare_corpus(settings, None, print)
    torch.manual_seed(0)
    model = TASK.model(settings, corpus).double()
    batch = corpus.batches.load(corpus.batches.plan(0)[0])
    plain, guided = model(batch, 0.1), guided_objective(model, batch, 0.1, 0.7)
    assert guided.total.item() == pytest.approx(plain.total.item(), abs=1e-9)
    nats, count = guidance_of(model, batch)
    memory = model.encode(batch.source, batch.source_lengths)
    step = model.decoder.step(model.decoder.start(memory, len(batch)), batch.target_in)
    mean = step.attended[model.decoder.alignment].weights.mean(1)
    by_hand = -(batch.links * mean.log().where(batch.links > 0, 0.0)).sum()
    assert nats.item() == pytest.approx(by_hand.item(), abs=1e-6) and count == (batch.links > 0).any(-1).sum()
    parameters = list(model.parameters())
    grads = [
        torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
        for loss in (guided.total, plain.total + 0.7 * nats)
    ]
    for mine, expected in zip(*grads, strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-9, rtol=1e-7)


def test_a_reading_is_what_the_search_found():
    """The score of given pieces is the log-probability with which a beam search with a cache found them."""
    translator = transformer(texts=["a b c d e"])
    found = translator.translate(["a b e", "c"], SearchSettings(beam=30, n_best=30, max_length=3))
    pairs = [(one.source, output) for one in found for output in one.outputs if "<unk>" not in output.tokens]
    pairs = [(source, output) for source, output in pairs if output.finished]
    readings = translator.score([source for source, _ in pairs], [output.text for _, output in pairs])
    assert len(pairs) > 2
    for (_, output), reading in zip(pairs, readings, strict=True):
        assert reading.log_probability == pytest.approx(output.log_probability, abs=1e-5)
        torch.testing.assert_close(reading.alignment, output.alignment, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(reading.alignment.sum(-1), torch.ones(len(reading.alignment)))


def test_kinds_translate_together():
    """An ensemble of a Transformer and a recurrent translator: the mean of both probabilities, batch-mates or not."""
    one, other = transformer(), recurrent(3)
    both = TranslationPredictor(EnsembleModel([one.model, other.model]), one.parts, one.settings)
    texts = ["der Hund rennt im Schnee .", "im", "Hund der ."]
    search = SearchSettings(beam=3, max_length=5)
    together = both.translate(texts, search)
    for text, found in zip(texts, together, strict=True):
        alone = both.translate([text], search)[0]
        assert alone.text == found.text and alone.score == pytest.approx(found.score, abs=1e-5)
    pair = ["der Hund"], ["the dog"]
    first, second, mean = (translator.score(*pair)[0].log_probabilities[0] for translator in (one, other, both))
    assert mean == pytest.approx(torch.tensor([first, second]).exp().mean().log().item(), abs=1e-5)


def test_what_a_transformer_does_not_have_is_said():
    translator = transformer()
    with pytest.raises(RegardError, match="one recurrent translator"):
        list(align(translator, [("der Hund", "the dog")], posterior=True))
    with pytest.raises(RegardError, match="--heads"):
        translation_steps(translator, "der Hund")
    (aligned,) = align(translator, [("der Hund", "the dog")])
    assert aligned.weights.shape == (2, 2)
