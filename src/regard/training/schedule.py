"""The learning rate as a pure function of where the run is; nothing of it needs saving."""

import math

from regard.training.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, step: int, done: float) -> float:
    """The learning rate of one update: a linear warm-up, then the decay.

    Args:
        settings: `learning_rate`, `warmup_steps`, `decay` and `floor`.
        step: updates made before this one, from 0.
        done: the part of the run that is done, 0 to 1. For a run bound by steps it is step / steps; for one bound
            by minutes it is elapsed / minutes, and the warm-up's share of the run is taken from the pace so far.

    Returns:
        At step < warmup_steps, `learning_rate * (step + 1) / warmup_steps`. Afterwards `learning_rate` times
        `max(floor, sqrt(warmup_steps / (step + 1)))` for inverse_sqrt (Vaswani et al. 2017, section 5.3), and for
        cosine (Loshchilov and Hutter 2017, equation 5) and linear a fall from 1 to floor over what is left of the run.
    """
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    return settings.learning_rate * _decay(settings, step, min(1.0, done))


def _decay(settings: TrainingSettings, step: int, done: float) -> float:
    if settings.decay == "none":
        return 1.0
    if settings.decay == "inverse_sqrt":
        return max(settings.floor, math.sqrt(max(1, settings.warmup_steps) / (step + 1)))
    warm = settings.warmup_steps * done / step if step else 0.0  # with done = step / steps: warmup_steps / steps
    fallen = (done - warm) / (1 - warm) if warm < 1 else 1.0
    shape = (1 + math.cos(math.pi * fallen)) / 2 if settings.decay == "cosine" else 1 - fallen
    return settings.floor + (1 - settings.floor) * shape
