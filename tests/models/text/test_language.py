"""Language models and classifiers over whatever reads: padding, batch-mates, states, pooling."""

import pytest
import torch

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError
from regard.layers.decoder import Decoder
from regard.models.memory.settings import LSTMSettings
from regard.models.text.classifier import Classifier
from regard.models.text.classifier_settings import LSTMClassifierSettings, LSTMNClassifierSettings
from regard.models.text.language import LanguageModel
from regard.models.text.language_settings import LSTMLanguageSettings, LSTMNLanguageSettings
from regard.models.text.reader import make_reader

VOCABULARY, UNKNOWN = 13, 1
SIZES = {"embedding_dim": 7, "width": 5}
LANGUAGE = [LSTMLanguageSettings(**SIZES), LSTMNLanguageSettings(**SIZES, attention=3, tape=4)]
POOLINGS = [("mean",), ("max",), ("query",), ("mean", "max", "query")]


def language(settings) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(settings, VOCABULARY).eval()


def classifier(kind=LSTMNClassifierSettings, **choices) -> Classifier:
    torch.manual_seed(0)
    return Classifier(kind(**SIZES, **choices), VOCABULARY, 3, UNKNOWN).eval()


@pytest.mark.parametrize("settings", LANGUAGE)
def test_one_by_one_equals_the_whole(settings):
    model, ids = language(settings), torch.randint(VOCABULARY, (2, 11))
    assert isinstance(model, Decoder)
    whole, after = model.read(ids, model.reader.start(2))
    state, each = model.start(None, 2), []
    for one in ids.split(1, 1):
        step = model.step(state, one)
        state = step.state
        each.append(step.logits)
    torch.testing.assert_close(torch.cat(each, 1), whole)
    prompt = model.step(model.start(None, 2), ids)
    torch.testing.assert_close(prompt.logits, whole)
    torch.testing.assert_close(prompt.state.moving, after)


def test_a_single_step_has_the_weights_of_its_past():
    model = language(LANGUAGE[1])
    state = model.start(None, 2)
    for at in range(6):
        step = model.step(state, torch.full((2, 1), at))
        assert step.attended["past 0"].weights.shape == (2, 1, min(at, 4))
        state = step.state


@pytest.mark.parametrize("settings", LANGUAGE)
def test_draws_do_not_depend_on_batch_mates_and_are_seeded(settings):
    """K9 and K6: the same seed draws the same text, alone or beside others."""
    model, begin = language(settings), torch.tensor([[3], [3], [3]])
    drawn = SearchSettings(sample=True, max_length=9, seed=4)

    def ids(rows, numbers):
        found = search(model, None, rows, begin=begin[:rows], end=0, settings=drawn, indices=numbers, forbidden=[1])
        return [one[0].ids for one in found]

    three = ids(3, [0, 1, 2])
    assert ids(1, [1]) == [three[1]] and ids(3, [0, 1, 2]) == three
    assert len({tuple(one) for one in three}) > 1


@pytest.mark.parametrize("tied", [True, False])
def test_one_table_or_two(tied):
    model = language(LSTMNLanguageSettings(**SIZES, tied=tied))
    assert (model.readout.weight is model.embedding.weight) == tied
    loss = model(torch.randint(VOCABULARY, (2, 6)))
    assert loss.count == 10
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("kind", [LSTMClassifierSettings, LSTMNClassifierSettings])
def test_padding_and_batch_mates_change_nothing(kind, pooling):
    """K6 (B22): whatever stands in the padding, each sentence is judged as if it were alone."""
    model = classifier(kind, pooling=pooling, words_too=True, queries=2)
    ids, lengths = torch.randint(4, VOCABULARY, (4, 7)), torch.tensor([7, 3, 1, 0])
    found = model(ids, lengths)
    other = torch.where(torch.arange(7) < lengths[:, None], ids, VOCABULARY - 1)
    assert torch.equal(found, model(other, lengths))
    for row, length in enumerate(lengths.tolist()):
        alone = model(ids[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(alone, found[row : row + 1])
    torch.testing.assert_close(found[3], model.readout.bias)  # K1: no words, no evidence


def test_pooling_is_what_it_is_called():
    model = classifier(pooling=("mean", "max", "query"), queries=2)
    states = torch.tensor([[[1.0, 0, 0, 0, 0], [3.0, -1, 0, 0, 0], [9.0, 9, 9, 9, 9]]])
    mean, most, queried = model.pool(states, torch.tensor([2])).split([5, 5, 10], -1)
    assert mean.tolist() == [[2.0, -0.5, 0, 0, 0]]
    assert most.tolist() == [[3.0, 0, 0, 0, 0]]
    weights = (model.pools["query"].queries @ states[0, :2].T / 5**0.5).softmax(-1)
    torch.testing.assert_close(queried, (weights @ states[0, :2]).flatten().unsqueeze(0))


def test_words_are_dropped_in_training_alone():
    """K9 (B34): nothing is drawn in eval."""
    model = classifier(word_dropout=0.9, input_dropout=0.0, output_dropout=0.0)
    ids, lengths = torch.full((1, 50), 7), torch.tensor([50])
    assert torch.equal(model(ids, lengths), model(ids, lengths))
    model.train()
    states = model.states(ids, lengths)
    assert not torch.equal(states, model.states(ids, lengths))


def test_an_unknown_reader_is_reported_with_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'lstm'"):
        make_reader(LSTMSettings().model_copy(update={"kind": "lstmm"}), 3)
