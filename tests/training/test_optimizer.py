"""What a step of a gradient comes to, by hand."""

import pytest
import torch

from regard.training.optimizer import make_optimizer
from regard.training.settings import TrainingSettings


def test_rmsprops_step_by_hand():
    """v = (1 − α) g² and a step of η g / (√v + ε), then with momentum: two equal gradients of 2, α = 0.9, β = 0.5."""
    weight = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(weight.weight)
    settings = TrainingSettings(optimizer="rmsprop", learning_rate=0.1, beta1=0.5, beta2=0.9)
    optimizer, first = make_optimizer(weight, settings), 2 / 0.4**0.5
    for expected in (-0.1 * first, -0.1 * (1.5 * first + 2 / (0.9 * 0.4 + 0.4) ** 0.5)):
        weight.weight.grad = torch.full((1, 1), 2.0)
        optimizer.step()
        assert weight.weight.item() == pytest.approx(expected, rel=1e-5)
