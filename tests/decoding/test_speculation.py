"""Guessing ahead changes no word, only how often the decoder is asked."""

import pytest
import torch

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.decoding.speculation import repeats, speculate
from regard.errors import ConfigError, RegardError
from regard.models.text.language import LanguageModel
from regard.models.text.language_settings import LSTMLanguageSettings
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings

LENGTH = 23
BEGIN = torch.tensor([[3, 5, 7, 5, 7]])


class Counting:
    """A decoder that tells how often it was asked, and how many ids it read."""

    alignment = None

    def __init__(self, decoder):
        self.decoder, self.steps, self.read = decoder, 0, 0

    def parameters(self):
        return self.decoder.parameters()

    def start(self, memory, batch):
        return self.decoder.start(memory, batch)

    def step(self, state, inputs):
        self.steps, self.read = self.steps + 1, self.read + inputs.shape[1]
        return self.decoder.step(state, inputs)


def model(kind):
    torch.manual_seed(0)
    if kind == "lstm":
        made = LanguageModel(LSTMLanguageSettings(embedding_dim=11, width=13), 17)
    else:
        made = TransformerLanguageModel(
            TransformerLanguageSettings(dim=12, heads=2, layers=2, position=kind, window=7, initial="fan_in"), 17
        )
    return made.double().eval()


def greedily(decoder, end=None, forbidden=(0, 2)):
    settings = SearchSettings(max_length=LENGTH)
    [[found]] = search(decoder, None, 1, begin=BEGIN, end=end, settings=settings, forbidden=forbidden)
    return found.ids, found.finished


@pytest.mark.parametrize("kind", ["lstm", "rotary", "alibi", "sinusoidal"])
@pytest.mark.parametrize("ahead", [1, 3, 5])
def test_whatever_is_guessed_the_text_is_that_of_greedy_search(kind, ahead):
    decoder = model(kind)
    right, _ = greedily(decoder)
    known = [*BEGIN[0].tolist(), *right]

    def knowing(ids, most):
        return known[len(ids) : len(ids) + most]

    def half(ids, most):
        return [one if (len(ids) + at) % 3 else 1 for at, one in enumerate(knowing(ids, most))]

    for draft in (knowing, half, repeats, lambda ids, most: [1] * most, lambda ids, most: []):
        found = speculate(
            decoder, None, begin=BEGIN, end=None, length=LENGTH, ahead=ahead, draft=draft, forbidden=(0, 2)
        )
        assert found == (right, False)


def test_right_guesses_are_read_at_once_and_wrong_ones_never_twice_as_long():
    decoder = model("rotary")
    right, _ = greedily(decoder)
    known = [*BEGIN[0].tolist(), *right]
    for draft, steps in ((lambda ids, most: known[len(ids) : len(ids) + most], 1 + 6), (lambda ids, most: [], 1 + 23)):
        counting = Counting(decoder)
        speculate(counting, None, begin=BEGIN, end=None, length=LENGTH, ahead=3, draft=draft, forbidden=(0, 2))
        assert counting.steps == steps  # the prompt; then 23 ids, four a step, or one
    counting = Counting(decoder)
    speculate(counting, None, begin=BEGIN, end=None, length=LENGTH, ahead=3, draft=lambda ids, most: [1] * most)
    assert counting.read <= 4 + LENGTH * (3 + 4)


def test_an_end_among_the_guesses_ends_it():
    decoder = model("rotary")
    right, _ = greedily(decoder)
    end = right[5]
    cut = right[: right.index(end)]
    assert greedily(decoder, end) == (cut, True)
    draft = [*BEGIN[0].tolist(), *right]
    found = speculate(
        decoder, None, begin=BEGIN, end=end, length=LENGTH, ahead=4, forbidden=(0, 2),
        draft=lambda ids, most: draft[len(ids) : len(ids) + most],
    )  # fmt: skip
    assert found == (cut, True)


def test_repeats_by_hand():
    assert repeats([1, 2, 3, 4, 1, 2, 3], 2) == [4, 1]
    assert repeats([1, 2, 9, 2, 5, 2], 3) == [5, 2]  # the last time that 2 stood there
    assert repeats([1, 2, 3], 4) == []
    assert repeats([7], 4) == repeats([], 4) == []


def test_what_makes_no_sense_is_refused():
    decoder = model("rotary")
    with pytest.raises(ConfigError, match="ahead=0"):
        speculate(decoder, None, begin=BEGIN, end=None, length=3, ahead=0)
    with pytest.raises(RegardError, match="eval"):
        speculate(decoder.train(), None, begin=BEGIN, end=None, length=3, ahead=2)
