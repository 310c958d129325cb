import pytest
import torch

from regard.data.tokenizers.factory import train_tokenizer
from regard.errors import DataError, RegardError
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.settings import TranslationSettings
from regard.tasks.translation.steps import translation_steps


def translator(**model):
    torch.manual_seed(3)
    source, target = (train_tokenizer("words", [text], 29) for text in ("I love you .", "je t'aime ."))
    settings = TranslationSettings.model_validate({
        "data": {"phrases": {}, "tokenizer": "words"},
        "model": {"embedding_dim": 5, "encoder_dim": 7, "decoder_dim": 14, "attention_dim": 3, **model},
    })  # fmt: skip
    return TranslationPredictor(
        RecurrentTranslator(settings.model, len(source), len(target)), Tokenizers(source, target), settings
    )


@pytest.mark.parametrize(
    "model",
    [
        {"attention": "dot"},
        {"attention": "dot", "order": "bahdanau"},
        {"attention": "additive", "input_feeding": True},
        {"attention": "location_aware", "coverage": True, "cell": "gru"},
        {"attention": "feed_forward", "attention_options": {"positions": 11}},
    ],
)
def test_w4_the_numbers_of_each_step_belong_together(model):
    made = translator(**model)
    steps = translation_steps(made, "I love you", "je t'aime", name="here")
    assert [reading.word for reading in steps.read] == ["I", "love", "you", "</s>"]
    assert [writing.word for writing in steps.written] == ["je", "t", "'", "aime", "</s>"]
    assert (steps.run, steps.source, steps.target, steps.score) == (
        "here",
        "I love you",
        "je t'aime",
        model["attention"],
    )
    states = torch.tensor([reading.state for reading in steps.read])
    for writing in steps.written:
        weights = torch.tensor(writing.scores).softmax(0)
        assert torch.allclose(weights, torch.tensor(writing.weights), atol=1e-6)
        assert torch.allclose(weights @ states, torch.tensor(writing.context), atol=1e-6)
        if model["attention"] == "dot":
            assert torch.allclose(states @ torch.tensor(writing.state), torch.tensor(writing.scores), atol=1e-5)
    reading = made.score(["I love you"], ["je t'aime"])[0]
    assert torch.allclose(torch.tensor([writing.weights for writing in steps.written]), reading.alignment, atol=1e-6)
    probabilities = torch.tensor([writing.probability for writing in steps.written])
    assert float(probabilities.log().sum()) == pytest.approx(reading.log_probability, abs=1e-4)


def test_w4_without_a_target_it_is_the_models_own_translation():
    made = translator(attention="dot")
    assert translation_steps(made, "I love you").target == made.translate(["I love you"])[0].text


def test_w4_what_has_no_steps():
    with pytest.raises(RegardError, match="has no attention"):
        translation_steps(translator(attention="none"), "I love you")
    with pytest.raises(DataError, match="the text is empty"):
        translation_steps(translator(attention="dot"), " ")
