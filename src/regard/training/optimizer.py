"""AdamW, with decay for matrices alone."""

import torch
from torch import nn

from regard.errors import ConfigError
from regard.training.settings import TrainingSettings


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019) over the parameters that ask for gradients; vectors and scalars do not decay.

    The learning rate is set anew before each update, see `schedule`.

    Raises:
        ConfigError: no parameter asks for a gradient.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ConfigError("the model has no parameter to train; all of them have requires_grad=False")
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=all(parameter.device.type in ("cpu", "cuda") for parameter in trained),
    )
