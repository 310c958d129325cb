"""One fixed context: what was read is squeezed into a vector before the question is known (Cho et al. 2014).

x[1 … n] ── encoder ── c = h[n]          up to the question
x[t], c  ── decoder ── linear ── y[t]    from the question on

The bottleneck that attention was made to remove (Bahdanau et al. 2015, section 1).
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_exactly
from regard.layers.recurrent import Carried, Recurrence
from regard.layers.reference import reference_tensor
from regard.layers.sequence import StepOutput
from regard.models.memory.sequences import by_steps, check_sequences, check_step
from regard.models.memory.settings import FixedSettings


class FixedState(NamedTuple):
    """The state between two steps.

    Attributes:
        reading: of the encoder, which stands still once the question has come.
        answering: of the decoder, which begins at the question.
        asked: whether the question has come.
    """

    reading: Carried
    answering: Carried
    asked: Bool[Tensor, " batch"]


class FixedContext(nn.Module):
    """See `layers.sequence.SequenceModel`. Before the question the outputs are those of a zero state.

    Args:
        settings: the choices.
        inputs: width of the inputs.
        outputs: width of the outputs.

    Raises:
        ConfigError: the mark is none of the inputs.
    """

    def __init__(self, settings: FixedSettings, inputs: int, outputs: int) -> None:
        super().__init__()
        if not -inputs <= settings.mark < inputs:
            raise ConfigError(f"model.mark is {settings.mark}, and there are {inputs} inputs, from 0")
        self.settings, self.inputs, self.outputs = settings, inputs, outputs
        self.encoder = Recurrence("lstm", inputs, settings.width)
        self.decoder = Recurrence("lstm", inputs + settings.width, settings.width)
        self.readout = nn.Linear(settings.width, outputs)

    def start(self, batch: int) -> FixedState:
        """Nothing read, no question yet."""
        zeros = reference_tensor(self.encoder).new_zeros(batch, 1, self.settings.width)
        return FixedState((zeros, zeros), (zeros, zeros), torch.zeros(batch, dtype=torch.bool, device=zeros.device))

    def step(self, state: FixedState, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One time step: the encoder's up to the question, the decoder's from it on.

        Raises:
            ShapeError: the inputs are of another form or width, or of other rows than the state.
        """
        check_step(inputs, self.inputs, state.asked.shape[0])
        asked = state.asked | (inputs[:, self.settings.mark] > 0.5)
        _, read = self.encoder(inputs.unsqueeze(1), state.reading)
        reading = _where(asked, state.reading, read)
        given = torch.cat([inputs, reading[0].squeeze(1)], dim=-1)
        _, answered = self.decoder(given.unsqueeze(1), state.answering)
        answering = _where(asked, answered, state.answering)
        return StepOutput(self.readout(answering[0].squeeze(1)), FixedState(reading, answering, asked), {})

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Whole sequences: the encoder over all of them at once, then the decoder from the first question on.

        By the steps of a subclass that has its own, or another start.

        Raises:
            ShapeError: the inputs are of another form or width.
        """
        check_sequences(inputs, self.inputs)
        batch, time = inputs.shape[:2]
        state = self.start(batch)
        if not is_exactly(self, FixedContext):
            return by_steps(self.step, state, inputs, self.outputs)[0]
        if batch == 0 or time == 0:
            return inputs.new_zeros(batch, time, self.outputs)
        asked = (inputs[..., self.settings.mark] > 0.5).cummax(1).values
        lengths = (~asked).sum(1)
        states, _ = self.encoder(inputs, state.reading)
        before = torch.cat([states.new_zeros(batch, 1, states.shape[-1]), states], dim=1)
        context = before[torch.arange(batch, device=inputs.device), lengths]
        # Each row from its own question on: moved to the left, decoded, and moved back.
        places = lengths.unsqueeze(1) + torch.arange(time, device=inputs.device)
        moved = _taken(inputs, places.clamp(max=time - 1))
        given = torch.cat([moved, context.unsqueeze(1).expand(-1, time, -1)], dim=-1)
        answers, _ = self.decoder(given[:, : int(asked.sum(1).max())], state.answering)
        back = torch.arange(time, device=inputs.device) - lengths.unsqueeze(1)
        decoded = _taken(answers, back.clamp(min=0, max=max(answers.shape[1] - 1, 0))) if answers.shape[1] else states
        outputs: Tensor = self.readout(torch.where(asked.unsqueeze(-1), decoded, 0.0))
        return outputs


def _taken(rows: Tensor, places: Tensor) -> Tensor:
    """`(batch, time, width)` at `(batch, places)`."""
    return rows.gather(1, places.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


def _where(asked: Tensor, one: Carried, other: Carried) -> Carried:
    return tuple(torch.where(asked[:, None, None], this, that) for this, that in zip(one, other, strict=True))
