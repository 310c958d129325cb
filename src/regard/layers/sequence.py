"""What every model of sequences offers: step by step with its state in hand, or a whole sequence at once.

A model that reads one vector and gives one vector at each time step, such as a recurrent network with a memory.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attended import Attended


class StepOutput(NamedTuple):
    """What one time step gives.

    Attributes:
        output: `(batch, outputs)`.
        state: all that the next step needs, a pytree of tensors, batch first.
        attended: the step's attention, by the head's name ("read 0", "write 0", …); weights `(batch, 1, positions)`.
    """

    output: Float[Tensor, "batch outputs"]
    state: Any
    attended: dict[str, Attended]


@runtime_checkable
class SequenceModel(Protocol):
    """An `nn.Module` that reads a sequence; nothing that changes while it reads lives on the module."""

    def start(self, batch: int) -> Any:
        """The state before the first step."""
        ...

    def step(self, state: Any, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """Read one vector; the given state is not changed."""
        ...

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Read whole sequences from the start: the outputs of all steps, the same numbers as `step` gives."""
        ...


class HookPoint(nn.Module):
    """An identity that a head's attention passes through, so that hooks and `regard.record` see it."""

    def forward(self, attended: Attended) -> Attended:
        """The attention as it was given."""
        return attended
