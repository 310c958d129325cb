"""The optimizers: AdamW with decay for matrices alone, or RMSprop with momentum."""

import torch
from torch import nn

from regard.errors import ConfigError
from regard.training.settings import TrainingSettings


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimizer that the settings name, over the parameters that require gradients.

    AdamW is that of Loshchilov and Hutter (2019); vectors and scalars do not decay. RMSprop divides the gradient by the
    root of its mean square and steps with momentum (Graves 2013, equations 38 to 45, without the mean taken out).

    The learning rate is set anew before each update, see `schedule`.

    Raises:
        ConfigError: no parameter requires a gradient.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ConfigError("the model has no parameter to train; all of them have requires_grad=False")
    if settings.optimizer == "rmsprop":
        return torch.optim.RMSprop(
            trained,
            lr=settings.learning_rate,
            alpha=settings.beta2,
            eps=settings.epsilon,
            momentum=settings.beta1,
            foreach=True,
        )
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
