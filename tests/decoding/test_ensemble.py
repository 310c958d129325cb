"""Several decoders searched as one, against tables worked out by hand."""

import math

import pytest
import torch

from regard.decoding.ensemble import Ensemble
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, ShapeError
from tests.reference.search import TableDecoder

BEGIN, END = 0, 1


def rule(first, weights):
    """After the begin mark these probabilities; then the end."""

    def probabilities(item, prefix):
        chances = first if len(prefix) == 1 else (0, 1, 0, 0)
        return [math.log(one) if one else -math.inf for one in chances], weights

    return probabilities


# Ids: 0 begin, 1 end, 2 "a", 3 "b". Alone, one member takes a (.5) and the other b (.9).
ONE = rule((0, 0.1, 0.5, 0.4), (0.75, 0.25, 0.0))
OTHER = rule((0, 0.0, 0.1, 0.9), (0.25, 0.5, 0.25))


def find(decoders, mean="probability", **settings):
    memory = [torch.tensor([0, 0]) for _ in decoders]
    settings = SearchSettings(**({"beam": 3, "n_best": 3, "max_length": 3, "length_penalty": 0.0} | settings))
    return search(Ensemble(decoders, mean), memory, 2, begin=BEGIN, end=END, settings=settings)[1]


def test_the_mean_of_two_by_hand():
    """(.5 + .1) / 2 = .3 for a, (.4 + .9) / 2 = .65 for b, (.1 + 0) / 2 = .05 for the end; weights (.5, .375, .125)."""
    found = find([TableDecoder(ONE), TableDecoder(OTHER)])
    assert [one.ids for one in found] == [[3], [2], []]
    assert [one.score for one in found] == pytest.approx([math.log(0.65), math.log(0.3), math.log(0.05)], abs=1e-6)
    torch.testing.assert_close(found[0].alignment, torch.tensor([[0.5, 0.375, 0.125]] * 2))


def test_the_mean_of_logarithms_by_hand():
    """√(.5 · .1) = .2236 for a and √(.4 · .9) = .6 for b, made to sum to 1; the end, which one rules out, is gone."""
    found = find([TableDecoder(ONE), TableDecoder(OTHER)], "log")
    a, b = math.sqrt(0.05), 0.6
    assert [one.ids for one in found] == [[3], [2]]
    assert [one.score for one in found] == pytest.approx([math.log(b / (a + b)), math.log(a / (a + b))], abs=1e-6)


def test_a_member_without_attention_leaves_the_others_weights():
    found = find([TableDecoder(ONE), TableDecoder(OTHER, aligned=False)])
    torch.testing.assert_close(found[0].alignment, torch.tensor([[0.75, 0.25, 0.0]] * 2))
    assert find([TableDecoder(ONE, aligned=False)])[0].alignment is None


def test_heads_are_averaged_before_members():
    class Heads(TableDecoder):
        def step(self, state, inputs):
            step = super().step(state, inputs)
            weights = step.attended["source"].weights
            step.attended["source"]._weights = torch.stack([weights, torch.zeros_like(weights)], 1)
            return step

    found = find([Heads(ONE), TableDecoder(OTHER)])
    torch.testing.assert_close(found[0].alignment, torch.tensor([[0.3125, 0.3125, 0.125]] * 2))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="at least one decoder"):
        Ensemble([])
    with pytest.raises(ConfigError, match="'geometric'"):
        Ensemble([TableDecoder(ONE)], "geometric")
    few = TableDecoder(lambda item, prefix: ([0.0, 0.0], (1.0, 0.0, 0.0)))
    with pytest.raises(ShapeError, match=r"among \[2, 4\] words"):
        find([TableDecoder(ONE), few])
    with pytest.raises(ShapeError, match="1 memories for an ensemble of 2"):
        Ensemble([TableDecoder(ONE), TableDecoder(OTHER)]).start([torch.tensor([0])], 1)
