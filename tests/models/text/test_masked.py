"""Models over a Transformer encoder: a masked language model, a tagger, a classifier."""

import pytest
import torch

from regard.data.tagging.batches import UNTAGGED, TaggedBatch
from regard.models.text.bidirectional import BidirectionalTransformer
from regard.models.text.classifier import Classifier
from regard.models.text.classifier_settings import TransformerClassifierSettings
from regard.models.text.masked import MaskedLanguageModel
from regard.models.text.masked_settings import MaskedModelSettings
from regard.models.text.tagger import Tagger
from regard.models.text.tagger_settings import TaggerSettings
from regard.vocabulary import UNKNOWN

SMALL = {"dim": 12, "heads": 2, "layers": 2, "feed_forward_dim": 11, "position": "rotary", "dropout": 0.0}


@pytest.mark.parametrize("tied", [True, False])
def test_masked_tokens_are_predicted_by_the_table_and_only_where_they_are(tied):
    torch.manual_seed(0)
    model = MaskedLanguageModel(MaskedModelSettings(**SMALL, tied=tied), 23).eval()
    ids = torch.tensor([[5, 23, 7, 23, 9], [8, 23, 6, 0, 0]])
    told = model.logits_at(ids, ids == 23)
    states = model.encoder(ids)
    row = model.norm(torch.nn.functional.gelu(model.transform(states[0, 3])))
    table = model.encoder.embedding.weight[:23] if tied else model.readout.weight
    torch.testing.assert_close(told[1], table @ row + model.readout.bias)
    assert told.shape == (3, 23)  # [MASK], the 24th, is no answer
    alone = model.logits_at(ids[1:, :3], ids[1:, :3] == 23)
    torch.testing.assert_close(told[2:], alone)  # beside a longer line, padded
    names = [name for name, _ in model.named_parameters()]
    assert ("readout.weight" in names) != tied
    model.logits_at(ids, ids == 23).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_masked_token_is_predicted_from_both_sides():
    torch.manual_seed(1)
    model = MaskedLanguageModel(MaskedModelSettings(**SMALL), 23).eval()
    ids = torch.tensor([[5, 6, 23, 7, 8]])
    before = model.logits_at(ids, ids == 23)
    for at in (0, 4):
        other = ids.clone()
        other[0, at] = 9
        assert not torch.allclose(model.logits_at(other, ids == 23), before, atol=1e-4)


def words(seed=0):
    torch.manual_seed(seed)
    ids = torch.randint(2, 29, (2, 5, 3))
    ids[1, 3:] = 0
    ids[:, :, 2] = 0  # features that are absent
    return ids, torch.tensor([5, 3])


def test_a_tagger_sums_features_and_padding_changes_nothing():
    """B22: what lies beyond a sentence is not seen; nor is a feature that is absent."""
    model = Tagger(TaggerSettings(**SMALL), 29, 7, UNKNOWN).eval()
    ids, lengths = words()
    logits = model(ids, lengths)
    torch.testing.assert_close(logits[1, :3], model(ids[1:, :3, :2], lengths[1:])[0])
    dirty = ids.clone()
    dirty[1, 3:] = 28
    torch.testing.assert_close(model(dirty, lengths)[1, :3], logits[1, :3])
    by_hand = model.embedding.weight[ids[0, 0, :2]].sum(0)
    torch.testing.assert_close(model.embedding(ids[:1, 0])[0], by_hand)
    # Every word sees every other: the last one changes the first.
    other = ids.clone()
    other[0, 4, 0] = 1 + ids[0, 4, 0] % 20
    assert not torch.allclose(model(other, lengths)[0, 0], logits[0, 0], atol=1e-5)


def test_a_tagger_learns_from_real_words_alone_and_drops_words_in_training():
    settings = TaggerSettings(**SMALL, word_dropout=0.999999, input_dropout=0.0, output_dropout=0.0)
    model = Tagger(settings, 29, 7, UNKNOWN)
    ids, lengths = words()
    tags = torch.tensor([[0, 1, 2, 3, 4], [5, 6, 0, UNTAGGED, UNTAGGED]])
    objective = model.loss(TaggedBatch(torch.arange(2), ids, lengths, tags))
    assert int(objective.count) == 8
    hidden = ids.clone()
    hidden[..., 0] = UNKNOWN  # the word itself is unknown, its other features stay
    trained = model(ids, lengths)
    torch.testing.assert_close(trained[0], model.eval()(hidden, lengths)[0])


def test_a_two_sided_classifier_pools_what_every_word_saw():
    """B22: padding changes no label, and a learned query reads real words alone."""
    torch.manual_seed(0)
    settings = TransformerClassifierSettings(**SMALL, embedding_dim=5, pooling=("query", "mean"), queries=3)
    model = Classifier(settings, 23, 2, UNKNOWN).eval()
    ids, lengths = torch.tensor([[5, 6, 7, 8, 9], [4, 9, 11, 21, 22]]), torch.tensor([5, 3])
    logits = model(ids, lengths)
    torch.testing.assert_close(logits[1:], model(ids[1:, :3], lengths[1:]))
    assert model.readout.in_features == 12 * 3 + 12
    states = model.states(ids, lengths)
    other = ids.clone()
    other[0, 4] = 10
    assert not torch.allclose(model.states(other, lengths)[0, 0], states[0, 0], atol=1e-5)
    blank = model(ids[:, :0], torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(blank, model.readout.bias.expand(2, 2))


@pytest.mark.parametrize(("position", "size"), [("sinusoidal", 8.0), ("rotary", 1.0)])
def test_a_classifiers_words_are_as_large_as_sinusoids(position, size):
    """Words come as vectors of length 1; beside sinusoids, of length √(dim/2), they are taken times √64."""
    settings = TransformerClassifierSettings(embedding_dim=64, dim=64, heads=2, layers=1, position=position)
    reader, given = BidirectionalTransformer(settings, 64).eval(), []
    reader.stack.register_forward_pre_hook(lambda stack, inputs: given.append(inputs[0]))
    reader(torch.full((1, 3, 64), 0.125), torch.ones(1, 3, dtype=torch.bool))
    assert given[0].norm(dim=-1).flatten().tolist() == pytest.approx([size] * 3)
