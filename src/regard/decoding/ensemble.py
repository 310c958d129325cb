"""Several decoders searched as one: their probabilities are averaged at every step."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.attended import Attended
from regard.errors import ConfigError, ShapeError
from regard.layers.decoder import Decoder, State, Step

Mean = Literal["probability", "log"]

ALIGNMENT = "ensemble"


class Ensemble:
    """A decoder made of decoders that choose among the same words (`layers.decoder.Decoder`).

    Its state is the tuple of theirs, its logits are logarithms:

    | mean | the next word's score |
    |---|---|
    | probability | `log(1/M Σ_m p_m(w))`, as in Sutskever et al. 2014: a word is likely if any member finds it so |
    | log | `1/M Σ_m log p_m(w)`, not normalized (the search does): a word is likely if no member rules it out |

    Its attention is the mean of the weights of those members that attend to the source.

    Args:
        members: at least one.
        mean: see the table.

    Raises:
        ConfigError: no members, or an unknown mean.
    """

    def __init__(self, members: Sequence[Decoder], mean: str = "probability") -> None:
        if not members:
            raise ConfigError("an ensemble needs at least one decoder; none was given")
        if mean not in ("probability", "log"):
            raise ConfigError(f"the mean of an ensemble is of 'probability' or of 'log'; given {mean!r}")
        self.members, self.mean = list(members), mean
        self.alignment = ALIGNMENT if any(member.alignment is not None for member in members) else None

    @property
    def training(self) -> bool:
        """Whether any member is in training mode."""
        return any(getattr(member, "training", False) for member in self.members)

    def start(self, memory: Sequence[Any], batch: int) -> State:
        """The state before the first input; `memory` has one entry per member.

        Raises:
            ShapeError: there are more or fewer memories than members.
        """
        if len(memory) != len(self.members):
            raise ShapeError(f"{len(memory)} memories for an ensemble of {len(self.members)} decoders: one each")
        states = [member.start(one, batch) for member, one in zip(self.members, memory, strict=True)]
        return State(tuple(state.fixed for state in states), tuple(state.moving for state in states))

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Every member reads the same inputs."""
        steps = [
            member.step(State(fixed, moving), inputs)
            for member, fixed, moving in zip(self.members, state.fixed, state.moving, strict=True)
        ]
        after = State(tuple(step.state.fixed for step in steps), tuple(step.state.moving for step in steps))
        weights = [
            step.weights(member.alignment)
            for member, step in zip(self.members, steps, strict=True)
            if member.alignment is not None
        ]
        attended = {ALIGNMENT: Attended(None, weights=torch.stack(weights).mean(0))} if weights else {}
        return Step(self._joined([step.logits for step in steps]), after, attended)

    def _joined(self, logits: list[Tensor]) -> Float[Tensor, "batch n choices"]:
        choices = {one.shape[-1] for one in logits}
        if len(choices) > 1:
            raise ShapeError(f"the decoders of an ensemble choose among {sorted(choices)} words: expected as many each")
        logs = torch.stack([(one if one.dtype == torch.float64 else one.float()).log_softmax(-1) for one in logits])
        if self.mean == "log":
            return logs.mean(0)
        return logs.logsumexp(0) - math.log(len(logits))
