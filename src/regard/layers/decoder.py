"""What every decoder offers, so that one search serves words, captions, pointers and language models."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.attended import Attended, Source


class State(NamedTuple):
    """All that decoding needs between two steps: two pytrees of tensors, batch first.

    Attributes:
        fixed: belongs to the item and is the same for all of its hypotheses (prepared keys, values, lengths).
        moving: changes from step to step (recurrent states, coverage, caches).

    Search reorders only `moving` when hypotheses of one item cross, and selects rows of both when items leave.
    """

    fixed: Any
    moving: Any


class Step(NamedTuple):
    """What one call of a decoder gives: logits after each of n inputs, the state after them, and its attention.

    Attributes:
        logits: `(batch, n, choices)`.
        state: the state after the n inputs.
        attended: by the attention's name within the decoder.
    """

    logits: Float[Tensor, "batch n choices"]
    state: State
    attended: Mapping[str, Attended]

    def weights(self, name: str) -> Float[Tensor, "batch n source"]:
        """The weights of the attention of that name, averaged over its heads."""
        return over_heads(self.attended[name].weights)


@runtime_checkable
class Decoder(Protocol):
    """`alignment` names the attention (a key of `Step.attended`) over the source, or is None."""

    alignment: str | None

    def start(self, memory: Any, batch: int) -> State:
        """The state before the first input; `memory` is what the encoder gave, or None."""
        ...

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Read n inputs (n > 1: a prompt, or teacher forcing); the given state is not changed."""
        ...


def over_heads(weights: Float[Tensor, "*lead queries keys"]) -> Float[Tensor, "batch queries keys"]:
    """The mean of the heads' weights; weights without heads are as they were."""
    return weights.mean(1) if weights.dim() == 4 else weights


def concatenated(steps: list[Attended]) -> Attended | None:
    """The attention of successive steps as one, of all their queries; weights are still computed only on access."""
    if not steps:
        return None
    if len(steps) == 1:
        return steps[0]
    contexts = [step.context for step in steps if step.context is not None]
    draws = [step.log_prob for step in steps if step.log_prob is not None]
    return Attended(
        torch.cat(contexts, dim=-2) if contexts else None,
        log_prob=torch.cat(draws, dim=-1) if draws else None,
        source=Source(
            weights=lambda: torch.cat([step.weights for step in steps], dim=-2),
            log_weights=lambda: torch.cat([step.log_weights for step in steps], dim=-2),
        ),
    )
