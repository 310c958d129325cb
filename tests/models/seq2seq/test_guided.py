"""Guided alignment: values by hand, gradients, and what it leaves alone."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.models.seq2seq.guided import guidance, guidance_of, guided_objective
from tests.models.variants import Pairs, pairs, translator


@dataclass
class Linked(Pairs):
    links: Tensor | None = None


def linked(links=True) -> Linked:
    """The batch of all model tests; the first target word of each row is linked to its first source word."""
    batch = pairs()
    weights = torch.zeros(*batch.target_out.shape, batch.source.shape[1])
    weights[:, 0, 0] = 1
    return Linked(**vars(batch), links=weights if links else None)


def test_the_loss_by_hand():
    """−log .5 of one piece, −(½ log .25 + ½ log .75) of another; the row without links may hold anything."""
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.25, 0.0, 0.75], [math.nan, 1.0, 0.0]]], requires_grad=True)
    links = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]])
    loss = guidance(weights, links)
    assert loss.item() == pytest.approx(math.log(2) - (math.log(0.25) + math.log(0.75)) / 2)
    loss.backward()
    expected = torch.tensor([[[-2.0, 0.0, 0.0], [-2.0, 0.0, -2 / 3], [0.0, 0.0, 0.0]]])
    torch.testing.assert_close(weights.grad, expected)


def test_a_position_that_is_not_seen_is_finite_and_teaches_nothing():
    weights = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    loss = guidance(weights, torch.tensor([[[0.5, 0.5]]]))
    assert loss.item() == pytest.approx(15 * math.log(10), rel=1e-6)
    loss.backward()
    assert weights.grad.tolist() == [[[0.0, -0.5]]]


@pytest.mark.parametrize("name", ["luong-additive", "luong-feeding", "bahdanau-gru", "luong-feeding-gru-local-m"])
def test_the_value_is_that_of_the_words_and_the_gradient_of_both(name):
    model, batch = translator(name), linked()
    plain = model.objective(batch, 0.1)
    guided = guided_objective(model, batch, 0.1, weight=0.7)
    assert guided.total.item() == pytest.approx(plain.total.item(), abs=1e-9)
    assert guided.count == plain.count and guided.correct == plain.correct
    (total, count), parameters = guidance_of(model, batch), list(model.parameters())
    assert count == 3 and total.isfinite()
    grads = [
        torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
        for loss in (guided.total, plain.total + 0.7 * total)
    ]
    for mine, expected in zip(*grads, strict=True):
        assert (mine is None) == (expected is None)
        if mine is not None:
            torch.testing.assert_close(mine, expected, atol=1e-9, rtol=1e-7)


def test_what_cannot_be_guided_is_said():
    with pytest.raises(ConfigError, match="no attention"):
        guided_objective(translator("fixed-every_step"), linked())
    with pytest.raises(ConfigError, match="holds no links"):
        guided_objective(translator(), linked(False))
