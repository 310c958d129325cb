"""Guided alignment from the settings on: taught links are found sooner, and nothing changes without them."""

import pytest
import torch

from regard.errors import ConfigError, DataError
from regard.metrics.alignment import alignment_error_rate
from regard.models.seq2seq.guided import guidance_of
from regard.tasks.core.config import check
from regard.tasks.translation.data import prepare_corpus
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.settings import TranslationSettings
from regard.tasks.translation.task import TASK

TINY = {
    "task": "translation",
    "threads": 1,
    "data": {"phrases": {"target": "fr", "count": 150}, "tokenizer": "words", "held_out": 11, "tokens": 300},
    "model": {"cell": "gru", "embedding_dim": 24, "encoder_dim": 24, "attention": "general", "dropout": 0.0},
    "search": {"max_length": 2},
}


def settings(**changes):
    return check(TranslationSettings, {**TINY, **changes})


@pytest.fixture(scope="module")
def corpus():
    return prepare_corpus(settings(guided_alignment=1.0), None, print)


def trained(chosen, corpus, steps=24):
    """A plain loop, the same weights and batches for all settings."""
    torch.manual_seed(0)
    model, loss = TASK.model(chosen, corpus), TASK.loss(chosen)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for indices in [batch for epoch in range(2) for batch in corpus.batches.plan(epoch)][:steps]:
        objective = loss(model, corpus.batches.load(indices))
        optimizer.zero_grad()
        (objective.total / objective.count).backward()
        optimizer.step()
    return model.eval()


def test_a_short_guided_training_aligns_better_than_one_that_is_not(corpus):
    by_weight = {}
    for weight in (0.0, 1.0):
        chosen = settings(guided_alignment=weight)
        model = trained(chosen, corpus).requires_grad_(False)
        translator = TranslationPredictor(model, corpus.parts, chosen)
        pairs = corpus.held_out.pairs
        readings = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs])
        links = [translator.shown(reading).links() for reading in readings]
        error = alignment_error_rate(links, [pair.links for pair in pairs], [pair.possible for pair in pairs])
        total, count = guidance_of(model, corpus.held_out.batches.load(list(range(len(pairs)))))
        by_weight[weight] = error, float(total / count)
    assert by_weight[1.0][0] < 0.6 * by_weight[0.0][0] and by_weight[1.0][1] < 0.6 * by_weight[0.0][1], by_weight
    assert TASK.metrics(chosen, corpus)(model)["guidance"] == pytest.approx(by_weight[1.0][1], rel=1e-4)


def test_without_a_weight_nothing_is_built_and_the_loss_is_the_plain_one_bit_for_bit(corpus):
    plain = prepare_corpus(settings(), None, print)
    assert plain.batches.links is None and plain.held_out.batches.links is None
    model = TASK.model(settings(), plain)
    batch, guided = plain.batches.load([0, 1, 2]), corpus.batches.load([0, 1, 2])
    assert torch.equal(TASK.loss(settings())(model, batch).total, model(batch, 0.0).total)
    assert guided.links.sum(-1).max() == 1
    assert TASK.loss(settings(guided_alignment=0.5))(model, guided).total.item() == pytest.approx(
        model(batch, 0.0).total.item(), rel=1e-6
    )


def test_data_without_links_and_models_without_attention_are_refused(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    data = {**TINY["data"], "phrases": None, "source": tmp_path / "a", "target": tmp_path / "a", "held_out": 1}
    with pytest.raises(DataError, match=r"guided_alignment is 0\.5, but no training pair has links"):
        prepare_corpus(settings(guided_alignment=0.5, data=data), None, print)
    for model, message in (
        ({"attention": "none"}, "attention is none"),
        ({"normalizer": "hard"}, "normalizer hard"),
        ({"teacher_forcing": 0.5}, "teacher_forcing must be 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            settings(guided_alignment=0.5, model=model)
