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
    """What one call of a decoder gives: n choices for each row, the state after them, and where it looked.

    Attributes:
        logits: `(batch, n, choices)`.
        state: the state after the n inputs.
        attended: by the attention's name within the decoder.
    """

    logits: Float[Tensor, "batch n choices"]
    state: State
    attended: Mapping[str, Attended]

    def weights(self, name: str) -> Float[Tensor, "batch n source"]:
        """Where the attention of that name looked, its heads averaged."""
        return over_heads(self.attended[name].weights)


@runtime_checkable
class Decoder(Protocol):
    """`alignment` names the attention (a key of `Step.attended`) that looks at the source, or is None."""

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


def concatenated(looks: list[Attended]) -> Attended | None:
    """The looks of successive steps as one look of all their queries; weights are still made only when asked for."""
    if not looks:
        return None
    if len(looks) == 1:
        return looks[0]
    contexts = [look.context for look in looks if look.context is not None]
    draws = [look.log_prob for look in looks if look.log_prob is not None]
    return Attended(
        torch.cat(contexts, dim=-2) if contexts else None,
        log_prob=torch.cat(draws, dim=-1) if draws else None,
        source=Source(
            weights=lambda: torch.cat([look.weights for look in looks], dim=-2),
            log_weights=lambda: torch.cat([look.log_weights for look in looks], dim=-2),
        ),
    )
