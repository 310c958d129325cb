"""Heads and layers in one picture, and a text as it was written: numbers by hand, and those of the model."""

import json
import math

import pytest
import torch

from regard.attention.attended import Attended
from regard.data.tokenizers.factory import train_tokenizer
from regard.data.translation.settings import DataSettings
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, DataError, RegardError
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.seq2seq.translators import build_translator
from regard.models.transformer.settings import TransformerTranslatorSettings
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.settings import TranslationSettings
from regard.tasks.translation.task import TASK
from regard.tasks.views.generation import StepWeights, generation_view
from regard.tasks.views.heads import Heads, heads_of, heads_view
from regard.views.page.page import page
from regard.views.picture.picture import picture
from regard.views.tables import from_json, to_json
from regard.views.terminal.terminal import terminal
from regard.vocabulary import BEGIN, END

TEXTS = ["the dog runs in the snow .", "der Hund rennt im Schnee ."]


def made(seed=0, **model):
    """A Transformer of 3 + 2 layers and 2 heads, in eval mode."""
    torch.manual_seed(seed)
    sizes = {
        "dim": 14,
        "heads": 2,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "feed_forward_dim": 11,
        "initial": "fan_in",
    }
    settings = TranslationSettings(
        data=DataSettings(max_length=40, phrases={}), model=TransformerTranslatorSettings(**{**sizes, **model})
    )
    tokenizer = train_tokenizer("words", TEXTS, 61)
    network = build_translator(settings.model, len(tokenizer), len(tokenizer))
    return TranslationPredictor(network, Tokenizers(tokenizer, tokenizer), settings)


def test_the_overview_by_hand():
    """One head that looks at itself, one at the piece before; the first piece has none before and looks at itself."""
    itself = torch.eye(3)
    before = torch.tensor([[1.0, 0, 0], [0.75, 0.25, 0], [0, 0.5, 0.5]])
    view = heads_view([Heads("self", 0, torch.stack([itself, before]), ["a", "b", "c"], ["a", "b", "c"])])
    (overview,) = view.overview
    assert list(overview.columns) == ["itself", "previous", "next", "first", "last", "most"]
    assert list(overview.rows) == ["1.1", "1.2"]
    first, second = overview.values.tolist()
    assert first == pytest.approx([1, 0, 0, 1 / 3, 1 / 3, 1])
    assert second == pytest.approx([(1 + 0.25 + 0.5) / 3, (0.75 + 0.5) / 2, 0, 1.75 / 3, 0.5 / 3, (1 + 0.75 + 0.5) / 3])
    assert [matrix.title for matrix in view.matrices] == ["self 1.1", "self 1.2"] and view.across == 2


def test_new_queries_stand_at_the_end_of_the_keys():
    """A step of a cached text: its own place is the last key; there is nothing after it."""
    weights = torch.tensor([[[0.1, 0.2, 0.7]]])
    (overview,) = heads_view([Heads("decoder self", 1, weights, ["c"], ["a", "b", "c"])]).overview
    values = dict(zip(overview.columns, overview.values[0].tolist(), strict=True))
    assert values["itself"] == pytest.approx(0.7) and values["previous"] == pytest.approx(0.2)
    assert math.isnan(values["next"]) and overview.rows == ("2.1",)


def test_padding_is_left_out_and_parts_stand_together():
    attended = {
        f"{kind} {layer}": Attended(None, weights=torch.full((2, 3, 5, 7), 1 / 7))
        for layer in (0, 1)
        for kind in ("self", "cross")
    }
    heads = heads_of(attended, ["a", "b"], {"cross": ["x", "y", "z"]}, side="decoder", item=1)
    view = heads_view(heads)
    assert [matrix.values.shape for matrix in view.matrices] == [(2, 2)] * 6 + [(2, 3)] * 6
    assert [matrix.title for matrix in view.matrices][::3] == [
        "decoder self 1.1", "decoder self 2.1", "decoder to source 1.1", "decoder to source 2.1",
    ]  # fmt: skip
    assert view.overview[1].columns == ("first", "last", "most")


def test_every_layer_and_head_of_a_translation():
    """The grid holds each layer's weights as the model has them; the decoder's rows are what it reads and writes."""
    translator = made()
    view = TASK.view(translator, "der Hund rennt", target="the dog runs", heads=True)
    assert len(view.matrices) == (3 + 2 + 2) * 2 and view.across == 2 and len(view.overview) == 3
    by_title = {matrix.title: matrix for matrix in view.matrices}
    own, cross = by_title["decoder self 2.1"], by_title["decoder to source 2.2"]
    assert own.rows == own.columns == ("<s>", "the", "dog", "runs")
    assert cross.rows == ("the", "dog", "runs", "</s>") and cross.columns == ("der", "Hund", "rennt", "</s>")
    model, source = translator.model, translator.read("der Hund rennt").ids
    target = translator.read_target("the dog runs").ids
    with torch.no_grad():
        memory = model.encode(torch.tensor([[*source, END]]), torch.tensor([4]))
        step = model.decoder.step(model.decoder.start(memory, 1), torch.tensor([[BEGIN, *target]]))
    torch.testing.assert_close(torch.tensor(cross.values).float(), step.attended["cross 1"].weights[0, 1])
    torch.testing.assert_close(torch.tensor(own.values).float(), step.attended["self 1"].weights[0, 0])


def test_the_steps_of_a_translation_are_those_that_wrote_it():
    """The probability of each written piece multiplies to what the search found; the looks are its alignment."""
    translator = made()
    search = SearchSettings(beam=3, max_length=6)
    found = translator.translate(["der Hund rennt"], search)[0].outputs[0]
    view = TASK.view(translator, "der Hund rennt", steps=True, search=search)
    looked, likely = view.matrices
    torch.testing.assert_close(torch.tensor(looked.values).float(), found.alignment, atol=1e-6, rtol=1e-5)
    own = torch.tensor(likely.values)[:, 0]
    assert float(own.log().sum()) == pytest.approx(found.log_probability, abs=1e-4)
    assert likely.columns == ("written", "1", "2", "3", "4") and list(likely.rows) == found.tokens
    assert all(row[1] >= row[2] >= row[3] >= row[4] for row in likely.values.tolist())


def test_generation_by_hand():
    logits = torch.tensor([[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]]).log()
    view = generation_view(
        logits, torch.tensor([2, 0]), "abc".__getitem__, [StepWeights(torch.ones(2, 1), ["x"])], most=2
    )
    assert view.matrices[1].texts == (("", "b", "c"), ("", "a", "c"))
    assert view.matrices[1].values.tolist() == [pytest.approx([0.3, 0.5, 0.3]), pytest.approx([0.7, 0.7, 0.2])]
    with pytest.raises(DataError, match="nothing was written"):
        generation_view(logits[:0], torch.tensor([], dtype=torch.long), "abc".__getitem__)


def test_all_renderings_hold_the_grid_the_overview_and_the_words_in_cells(tmp_path):
    translator = made(encoder_layers=1, decoder_layers=1)
    heads, steps = (TASK.view(translator, "der Hund", target="the dog", **{name: True}) for name in ("heads", "steps"))
    for view in (heads, steps):
        assert to_json(from_json(to_json(view))) == to_json(view)
    assert picture(heads, tmp_path / "view.png").stat().st_size > 5000
    assert "1.1" in terminal(heads, width=80, color=False) and "encoder self 1.1" not in terminal(heads, color=False)
    text = page(heads)
    assert text.count("<table") == 3 + 6 and "grid-template-columns:repeat(2,max-content)" in text
    assert page(steps).count("</bdi></b> 0.") == 3 * 4
    likely = steps.matrices[1]
    first = f"{likely.texts[1][1]} {likely.values[1][1]:.2f}".replace(" 0.", " .")
    assert first in terminal(steps, width=120, color=False)
    assert json.loads(to_json(steps))["matrices"][1]["texts"][1][1] == likely.texts[1][1]
    assert "看了哪里" in TASK.view(translator, "der Hund", target="the dog", heads=True, language="zh").title


def test_what_cannot_be_shown_is_said():
    translator = made()
    with pytest.raises(ConfigError, match="give only one"):
        TASK.view(translator, "der Hund", heads=True, steps=True)
    with pytest.raises(DataError, match="empty"):
        TASK.view(translator, "", heads=True)
    with pytest.raises(RegardError, match="only a Transformer"):
        heads_view([])
    recurrent = RecurrentTranslator(
        RecurrentSettings(embedding_dim=7, encoder_dim=5, attention_dim=3),
        len(translator.source),
        len(translator.target),
    )
    other = TranslationPredictor(recurrent, translator.parts, translator.settings)
    with pytest.raises(RegardError, match="without --heads"):
        TASK.view(other, "der Hund", heads=True)
    assert len(TASK.view(other, "der Hund", target="the dog", steps=True).matrices) == 2
