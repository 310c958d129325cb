"""What training minimizes: sums over tokens, never means, so that any split of a batch adds up to the same."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import ConfigError, ShapeError
from regard.kernels.autograd.once_differentiable import graph_anchor
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.loss import cross_entropy as kernel

IGNORED = -100


@dataclass(frozen=True)
class Objective:
    """Sums over the tokens of a batch.

    Attributes:
        total: the sum of the losses, in nats.
        count: how many tokens took part.
        correct: for how many of them the choice with the largest logit was the target.
    """

    total: Float[Tensor, ""]
    count: Int[Tensor, ""]
    correct: Int[Tensor, ""]


def objective(
    logits: Float[Tensor, "tokens choices"],
    targets: Int[Tensor, " tokens"],
    smoothing: float = 0.0,
    ignored: int = IGNORED,
) -> Objective:
    """Loss, tokens and right choices of all rows whose target is not `ignored`.

    Raises:
        ShapeError: there are no choices, or not one target a row.
        IndexError: a target is none of the choices.
    """
    kept = targets != ignored
    if logits.shape[-1] == 0:
        raise ShapeError(f"logits have shape {tuple(logits.shape)}: there is nothing to choose from")
    if targets.shape != logits.shape[:-1]:
        raise ShapeError(
            f"logits have shape {tuple(logits.shape)}, targets {tuple(targets.shape)}: one a row is needed"
        )
    if kernel.serves(logits, targets):
        total, right = kernel.cross_entropy(logits, targets, _share(smoothing), ignored)
        return Objective(total, kept.sum(), right.sum())
    correct = ((logits.detach().argmax(-1) == targets) & kept).sum()
    return Objective(smoothed_cross_entropy(logits, targets, smoothing, ignored), kept.sum(), correct)


def vocabulary_objective(
    features: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "choices width"],
    bias: Float[Tensor, " choices"],
    targets: Int[Tensor, " tokens"],
    smoothing: float = 0.0,
    ignored: int = IGNORED,
) -> Objective:
    """The objective of the logits `features weightᵀ + bias`, which need not be held beside their gradient.

    Args:
        features: what the output layer reads.
        weight, bias: of the output layer.
        targets: the right choices; a row whose target is `ignored` counts nowhere.
        smoothing: the share given to all choices alike.
        ignored: the target that marks a row to leave out.

    Raises:
        ShapeError: there are no choices, or not one target a row.
        IndexError: a target is none of the choices.
    """
    if not kernel.serves_vocabulary(features, weight, bias, targets):
        return objective(torch.nn.functional.linear(features, weight, bias), targets, smoothing, ignored)
    total, right = kernel.of_vocabulary(features, weight, bias, targets, _share(smoothing), ignored)
    return Objective(total, (targets != ignored).sum(), right.sum())


def smoothed_cross_entropy(
    logits: Float[Tensor, "tokens choices"],
    targets: Int[Tensor, " tokens"],
    smoothing: float = 0.0,
    ignored: int = IGNORED,
) -> Float[Tensor, ""]:
    """`−Σ_t [(1 − ε) log p(target_t) + ε/V Σ_v log p(v)]`, in nats, summed over the tokens (Szegedy et al. 2016, §7).

    Computed in at least float32. The gradient is formed during the forward pass, where the exponentials are at hand:
    one buffer of the logits' size, and half the time. It can be differentiated once, and refuses to be twice.

    Args:
        logits: scores before the softmax.
        targets: the right choices; a row whose target is `ignored` counts nowhere and may hold anything.
        smoothing: ε, the share given to all choices alike, from 0 up to 1.
        ignored: the target that marks a row to leave out.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0:
        return _formula(logits, targets, _share(smoothing), ignored)
    none = graph_anchor(logits)
    total: Tensor = _SmoothedCrossEntropy.apply(logits, none, targets, _share(smoothing), ignored)
    return total


def _share(smoothing: float) -> float:
    if not 0 <= smoothing <= 1:
        raise ConfigError(f"smoothing is a share between 0 and 1; it was {smoothing}")
    return smoothing


def _formula(logits: Tensor, targets: Tensor, smoothing: float, ignored: int) -> Tensor:
    """By torch's own operations, for who maps them, or differentiates them in another way than by a backward pass."""
    kept = (targets != ignored).unsqueeze(-1)
    scores = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    log_probs = torch.where(kept, scores, 0).log_softmax(-1)  # ignored scores may be NaN
    loss = (smoothing - 1) * log_probs.gather(-1, torch.where(kept, targets.unsqueeze(-1), 0))
    if smoothing:
        loss = loss - smoothing * log_probs.mean(-1, keepdim=True)
    return torch.where(kept, loss, 0).sum()


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, none: Tensor, targets: Tensor, smoothing: float, ignored: int) -> Tensor:
        kept = (targets != ignored).unsqueeze(-1)
        target = torch.where(kept, targets.unsqueeze(-1), 0)
        scores = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        log_probs = scores.log_softmax(-1)
        loss = (smoothing - 1) * log_probs.gather(-1, target)
        if smoothing:
            loss = loss - smoothing * log_probs.mean(-1, keepdim=True)
        if ctx.needs_input_grad[0]:
            gradient = log_probs.exp_()
            if smoothing:
                gradient.sub_(smoothing / scores.shape[-1])
            gradient.scatter_add_(-1, target, gradient.new_full(target.shape, smoothing - 1))
            if not kept.all():
                gradient[~kept.squeeze(-1)] = 0
            ctx.save_for_backward(gradient.to(logits.dtype), none)
        return torch.where(kept, loss, 0).sum()

    @staticmethod
    @unbatched
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None, None]:
        gradient, none = ctx.saved_tensors
        return kernel.times_upstream(gradient, none, upstream), None, None, None, None


def bits_objective(
    logits: Float[Tensor, "batch time outputs"],
    answers: Float[Tensor, "batch time outputs"],
    asked: Bool[Tensor, "batch time"],
) -> Objective:
    """The objective for bits: binary cross-entropy of each, summed in nats over the time steps of the answers.

    Args:
        logits: of each bit.
        answers: the bits, 0 or 1.
        asked: True at the time steps whose outputs count.
    """
    counted, wanted = logits[asked], answers[asked]
    total = torch.nn.functional.binary_cross_entropy_with_logits(counted, wanted, reduction="sum")
    return Objective(total, torch.tensor(wanted.numel()), ((counted.detach() > 0) == (wanted > 0.5)).sum())
