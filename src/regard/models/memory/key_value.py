"""Key-value attention over the own past: what an output is found by is not what is read (Daniluk et al. 2017).

x[t] ── LSTM ── [k[t]; v[t]]
                 k[t] ── additive over k[1 … t−1] ── w[t] ── r[t] = Σ w v[1 … t−1]
                                          tanh(W_r r[t] + W_x v[t]) ── linear ── y[t]

"Frustratingly Short Attention Spans in Neural Language Modeling", arXiv 1702.04521, section 2.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attention
from regard.attention.parts.score import Additive
from regard.kernels.autograd.hooks import is_exactly
from regard.layers.recurrent import Carried, Recurrence
from regard.layers.reference import reference_tensor
from regard.layers.sequence import StepOutput
from regard.models.memory.sequences import by_steps, check_sequences, check_step
from regard.models.memory.settings import KeyValueSettings


class KeyValueState(NamedTuple):
    """The state between two steps.

    Attributes:
        carried: the LSTM's.
        keys, values: of all steps so far.
    """

    carried: Carried
    keys: Float[Tensor, "batch steps width"]
    values: Float[Tensor, "batch steps width"]


class KeyValue(nn.Module):
    """See `layers.sequence.SequenceModel`.

    Args:
        settings: the choices.
        inputs: width of the inputs.
        outputs: width of the outputs.
    """

    def __init__(self, settings: KeyValueSettings, inputs: int, outputs: int) -> None:
        super().__init__()
        self.settings, self.inputs, self.outputs = settings, inputs, outputs
        width = settings.width
        self.recurrence = Recurrence("lstm", inputs, 2 * width)
        self.attention = Attention(Additive(query_dim=width, key_dim=width, hidden_dim=settings.attention_dim))
        self.join = nn.Linear(2 * width, width)
        self.readout = nn.Linear(width, outputs)

    def start(self, batch: int) -> KeyValueState:
        """Nothing read."""
        new = reference_tensor(self.recurrence).new_zeros
        state, none = new(batch, 1, 2 * self.settings.width), new(batch, 0, self.settings.width)
        return KeyValueState((state, state), none, none)

    def step(self, state: KeyValueState, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One time step; the first has no past and reads exactly 0.

        Raises:
            ShapeError: the inputs are of another form or width, or of other rows than the state.
        """
        check_step(inputs, self.inputs, state.keys.shape[0])
        hidden, carried = self.recurrence(inputs.unsqueeze(1), state.carried)
        key, value = hidden.chunk(2, -1)
        attended = self.attention(key, state.keys, state.values)
        after = KeyValueState(carried, torch.cat([state.keys, key], 1), torch.cat([state.values, value], 1))
        return StepOutput(self._output(attended.context, value).squeeze(1), after, {"past": attended})

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Whole sequences: one call of the LSTM, one of the attention over all steps.

        By the steps of a subclass that has its own, or another start.

        Raises:
            ShapeError: the inputs are of another form or width.
        """
        check_sequences(inputs, self.inputs)
        state = self.start(inputs.shape[0])
        if not is_exactly(self, KeyValue):
            return by_steps(self.step, state, inputs, self.outputs)[0]
        hidden, _ = self.recurrence(inputs, state.carried)
        keys, values = hidden.chunk(2, -1)
        attended = self.attention(keys, keys, values, mask=_strictly_past)
        return self._output(attended.context, values)

    def _output(self, context: Tensor | None, value: Tensor) -> Tensor:
        assert context is not None
        outputs: Tensor = self.readout(torch.tanh(self.join(torch.cat([context, value], -1))))
        return outputs


def _strictly_past(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return key < query
