"""What reads text for a model: vectors in, a state at each of them, from left to right and from any point on."""

from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError, nearest
from regard.kernels.autograd.hooks import overrides
from regard.layers.recurrent import Carried, Recurrence
from regard.layers.reference import reference_tensor
from regard.layers.sequence import StepOutput
from regard.models.memory.sequences import by_steps
from regard.models.memory.settings import LSTMSettings


@runtime_checkable
class Reader(Protocol):
    """An `nn.Module`. A position depends on those up to it alone, so that padding on the right changes nothing.

    Attributes:
        width: of what it gives.
    """

    width: int

    def start(self, batch: int) -> Any:
        """The state before the first vector, a pytree of tensors, batch first."""
        ...

    def step(self, state: Any, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """Read one vector; the output has its attention."""
        ...

    def __call__(self, inputs: Float[Tensor, "batch time inputs"], state: Any) -> tuple[Tensor, Any]:
        """Read any number of vectors: what it gives at each, `(batch, time, width)`, and the state after them."""
        ...


class LSTMReader(nn.Module):
    """A plain LSTM, whose past is in its state alone.

    Args:
        settings: the choices.
        inputs: width of the inputs.
    """

    def __init__(self, settings: LSTMSettings, inputs: int) -> None:
        super().__init__()
        self.width, self.layers = settings.width, settings.layers
        self.recurrence = Recurrence("lstm", inputs, settings.width, settings.layers, settings.dropout)

    def start(self, batch: int) -> Carried:
        """Hidden states and memories of all layers: zeros."""
        zeros = reference_tensor(self).new_zeros
        return tuple(zeros(batch, self.layers, self.width) for _ in range(2))

    def forward(
        self, inputs: Float[Tensor, "batch time inputs"], state: Carried
    ) -> tuple[Float[Tensor, "batch time width"], Carried]:
        """The top layer's hidden states, and the state after them; by the steps of a subclass that has its own."""
        if overrides(self, LSTMReader, "step"):
            return by_steps(self.step, state, inputs, self.width)
        return self._read(inputs, state)

    def step(self, state: Carried, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One vector; there is no attention."""
        # A subclass that overrides `forward` alone means a step as well; one that overrides both calls this as it is.
        alone = overrides(self, LSTMReader, "forward") and not overrides(self, LSTMReader, "step")
        hidden, state = (self.forward if alone else self._read)(inputs.unsqueeze(1), state)
        return StepOutput(hidden.squeeze(1), state, {})

    def _read(self, inputs: Tensor, state: Carried) -> tuple[Tensor, Carried]:
        hidden: Tensor
        hidden, state = self.recurrence(inputs, state)
        return hidden, state


KINDS: dict[str, tuple[str, str]] = {
    "lstm": ("regard.models.text.reader", "LSTMReader"),
    "lstmn": ("regard.models.memory.lstmn", "LSTMNReader"),
}
"""Module and class of each kind: `Class(settings, inputs)`."""


def make_reader(settings: Any, inputs: int) -> Reader:
    """The reader that the settings say, with fresh weights.

    Raises:
        ConfigError: an unknown kind.
    """
    if settings.kind not in KINDS:
        raise ConfigError(f"no reader is named {settings.kind!r}.{nearest(settings.kind, KINDS)}")
    module, name = KINDS[settings.kind]
    made: Reader = getattr(import_module(module), name)(settings, inputs)
    return made
