"""A plain LSTM over sequences: the baseline of every model with a memory (Hochreiter & Schmidhuber 1997).

inputs ── LSTM, one layer upon the other ── linear ── outputs
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels.autograd.hooks import is_exactly
from regard.layers.recurrent import Carried, Recurrence
from regard.layers.reference import reference_tensor
from regard.layers.sequence import StepOutput
from regard.models.memory.sequences import by_steps, check_sequences, check_step
from regard.models.memory.settings import LSTMSettings


class LSTMSequence(nn.Module):
    """See `layers.sequence.SequenceModel`.

    Args:
        settings: the choices.
        inputs: width of the inputs.
        outputs: width of the outputs.
    """

    def __init__(self, settings: LSTMSettings, inputs: int, outputs: int) -> None:
        super().__init__()
        self.settings, self.inputs, self.outputs = settings, inputs, outputs
        self.recurrence = Recurrence("lstm", inputs, settings.width, settings.layers, settings.dropout)
        self.readout = nn.Linear(settings.width, outputs)

    def start(self, batch: int) -> Carried:
        """Hidden states and memories of all layers, `(batch, layers, width)` each: zeros."""
        shape = batch, self.settings.layers, self.settings.width
        zeros = reference_tensor(self.recurrence).new_zeros
        return tuple(zeros(shape) for _ in range(2))

    def step(self, state: Carried, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One time step; there is nothing to attend to.

        Raises:
            ShapeError: the inputs are of another form or width, or of other rows than the state.
        """
        check_step(inputs, self.inputs, state[0].shape[0])
        hidden, state = self.recurrence(inputs.unsqueeze(1), state)
        return StepOutput(self.readout(hidden.squeeze(1)), state, {})

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """All steps in one fused call; by the steps of a subclass that has its own.

        Raises:
            ShapeError: the inputs are of another form or width.
        """
        check_sequences(inputs, self.inputs)
        state = self.start(inputs.shape[0])
        if not is_exactly(self, LSTMSequence):
            return by_steps(self.step, state, inputs, self.outputs)[0]
        hidden, _ = self.recurrence(inputs, state)
        outputs: Tensor = self.readout(hidden)
        return outputs
