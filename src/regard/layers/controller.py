"""The controller of a network with a memory: it reads the input and emits the parameters of the heads."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError, nearest
from regard.kernels.autograd.hooks import is_exactly, is_hooked, weights_of
from regard.kernels.autograd.plain import are_alike
from regard.kernels.memory.arrays import numpy_serves
from regard.layers.recurrent import WEIGHTS, Carried, Recurrence, Weights
from regard.layers.reference import reference_tensor

Kind = Literal["lstm", "feed_forward"]


class Controller(nn.Module):
    """A recurrent or a feed-forward network, one step at a time (Graves, Wayne & Danihelka 2014, section 3.4).

    The recurrent one has a state of its own beside the memory; the feed-forward one remembers nothing, so that all that
    lasts is in the memory.

    Args:
        kind: "lstm", or "feed_forward" (tanh).
        inputs: width of what it reads.
        width: of what it gives.
        layers: how many, one upon the other.

    Raises:
        ConfigError: an unknown kind.
    """

    def __init__(self, kind: str, inputs: int, width: int, layers: int = 1) -> None:
        super().__init__()
        if kind not in ("lstm", "feed_forward"):
            raise ConfigError(f"no controller is named {kind!r}.{nearest(kind, ('lstm', 'feed_forward'))}")
        self.kind, self.width, self.layers = kind, width, layers
        if kind == "lstm":
            self.recurrence = Recurrence("lstm", inputs, width, layers)
        else:
            widths = [inputs, *[width] * layers]
            self.each = nn.ModuleList(nn.Linear(*pair) for pair in zip(widths, widths[1:], strict=False))

    def cell(self) -> Weights | None:
        """The weights of the LSTM cell that is all of it; None where it is more, or something else, or has hooks.

        Input and recurrent weight, input and recurrent bias.
        """
        if self.kind != "lstm" or not is_exactly(self, Controller):
            return None
        recurrence = self.recurrence
        if is_hooked(self, recurrence) or not is_exactly(recurrence, Recurrence) or len(recurrence.each) > 1:
            return None
        weights: Any = weights_of(recurrence.each[0], nn.LSTMCell, *WEIGHTS)
        return weights

    def start(self, batch: int) -> Carried:
        """Zeros `(batch, layers, width)`, hidden state and cell state; nothing for a feed-forward controller."""
        if self.kind == "feed_forward":
            return ()
        zeros = reference_tensor(self).new_zeros
        return tuple(zeros(batch, self.layers, self.width) for _ in range(2))

    def forward(
        self, inputs: Float[Tensor, "batch inputs"], state: Carried
    ) -> tuple[Float[Tensor, "batch width"], Carried]:
        """What it gives for one input, and the state after it."""
        if self.kind == "lstm":
            output, state = self.recurrence(inputs.unsqueeze(1), state)
            return output.squeeze(1), state
        for layer in self.each:
            inputs = torch.tanh(layer(inputs))
        return inputs, state


def cell_and_interface(
    inputs: Float[Tensor, "batch time inputs"], controller: nn.Module, interface: nn.Module, readout: nn.Module
) -> tuple[Weights, tuple[Tensor, Tensor]] | None:
    """The weights that a machine's whole sequence is computed from; None where its parts have to be called.

    Those of the controller's cell, and weight and bias of the layer that gives the heads' parameters.

    Args:
        inputs: of all steps.
        controller: what reads them.
        interface: the linear layer that gives the parameters of the heads.
        readout: the layer that gives the outputs; it is called once for all steps.
    """
    if not numpy_serves(inputs) or not isinstance(controller, Controller):
        return None
    cell, linear = controller.cell(), weights_of(interface, nn.Linear, "weight", "bias")
    if cell is None or linear is None or weights_of(readout, nn.Linear, "weight") is None:
        return None
    weight, bias = linear
    return (cell, (weight, bias)) if are_alike(inputs, *cell, *linear) else None


def project_inputs(
    cell: Weights, inputs: Float[Tensor, "batch time inputs"]
) -> tuple[Float[Tensor, "time batch gates"], Float[Tensor, "gates reads_and_hidden"]]:
    """What all inputs of a sequence give to the gates of a controller's cell, and the weight of what a step adds.

    The first with both biases; the second is over what was read at the step before and the hidden state, side by side.

    Args:
        cell: its weights, over [input; what was read].
        inputs: of all steps.
    """
    entering, carried, bias, other_bias = cell
    width = inputs.shape[-1]
    projected = F.linear(inputs.transpose(0, 1), entering[:, :width], bias + other_bias)
    return projected, torch.cat([entering[:, width:], carried], dim=1)
