"""The long short-term memory-network: an LSTM that keeps each of its states on a tape, and reads the tape.

Cheng, Dong & Lapata 2016 (arXiv 1601.06733); the numbers beside the lines are its equations.

                     past h, c                        hidden tape h[1 … t−1], memory tape c[1 … t−1]
                        │
    x[t] ── additive ── read ── h̃[t], c̃[t]           step 1 has no past: it reads exactly 0
      │                            │
      └────────── gates ───────────┤
                                 h[t], c[t] ── written at the tapes' end
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attention
from regard.attention.attended import Attended
from regard.attention.parts.normalize import is_softmax
from regard.attention.parts.score import Additive
from regard.attention.parts.score_base import Prepared
from regard.kernels.autograd.hooks import is_exactly, is_hooked, weights_of
from regard.kernels.autograd.plain import are_alike, is_plain
from regard.kernels.memory import lstmn as kernel
from regard.layers.dropout import Dropout
from regard.layers.reference import reference_tensor
from regard.layers.sequence import StepOutput
from regard.models.memory.sequences import by_steps, check_sequences, check_step
from regard.models.memory.settings import LSTMNSettings


class Tapes(NamedTuple):
    """All that a layer knows of the steps so far.

    Attributes:
        tape: h and c of each step, side by side; the last steps only where the tape is bounded.
        key: `W_h h` of each step, projected once, when it was written.
        attended: h̃ of the last step.
    """

    tape: Float[Tensor, "batch slots two_width"]
    key: Float[Tensor, "batch slots attention"]
    attended: Float[Tensor, "batch width"]

    @property
    def hidden(self) -> Float[Tensor, "batch slots width"]:
        """H, the hidden tape: h of each step."""
        return self.tape.chunk(2, -1)[0]

    @property
    def memory(self) -> Float[Tensor, "batch slots width"]:
        """C, the memory tape: c of each step."""
        return self.tape.chunk(2, -1)[1]

    def written(self, tape: Tensor, key: Tensor, attended: Tensor, bound: int | None) -> "Tapes":
        """These tapes with further steps at their end, and with no more than the last `bound` of them."""
        first = 0 if bound is None else max(0, self.tape.shape[1] + tape.shape[1] - bound)
        tape, key = (torch.cat(both, 1)[:, first:] for both in ((self.tape, tape), (self.key, key)))
        # A view would keep the evicted slots alive.
        return Tapes(tape.clone(), key.clone(), attended) if first else Tapes(tape, key, attended)


class LSTMNLayer(nn.Module):
    """One layer.

    Args:
        inputs: width of x.
        width: of h and c.
        attention: width of v in the score.
        bound: slots that a step attends to; None: the whole past.
    """

    def __init__(self, inputs: int, width: int, attention: int, bound: int | None = None) -> None:
        super().__init__()
        self.inputs, self.width, self.bound = inputs, width, bound
        # W_x and W_h̃ are one matrix over the query [x[t]; h̃[t−1]].
        self.attention = Attention(Additive(query_dim=inputs + width, key_dim=width, hidden_dim=attention))
        self.gates = nn.Linear(width + inputs, 4 * width)  # over [h̃[t]; x[t]]: input, forget, output, candidate
        initialize_gates(self.gates, width)

    @property
    def score(self) -> Additive:
        """The score of the own past, eq. 4."""
        assert isinstance(self.attention.score, Additive)
        return self.attention.score

    def start(self, batch: int) -> Tapes:
        """Tapes with nothing on them."""
        new = reference_tensor(self).new_zeros
        return Tapes(new(batch, 0, 2 * self.width), new(batch, 0, self.score.hidden_dim), new(batch, self.width))

    def attend(self, state: Tapes, inputs: Float[Tensor, "batch inputs"]) -> Attended:
        """Read both tapes of the strict past; the context is h̃[t] and c̃[t], side by side."""
        query = torch.cat([inputs, state.attended], -1).unsqueeze(1)
        return self.attention(query, Prepared(state.hidden, state.key), state.tape)  # eq. 4, 5, 6

    def step(
        self, state: Tapes, inputs: Float[Tensor, "batch inputs"]
    ) -> tuple[Float[Tensor, "batch width"], Tapes, Attended]:
        """Read one vector: the hidden state, the tapes with it on them, and its attention."""
        attended = self.attend(state, inputs)
        assert attended.context is not None
        read, memory = attended.context.squeeze(1).chunk(2, -1)
        opening, forgetting, leaving, candidate = self.gates(torch.cat([read, inputs], -1)).chunk(4, -1)  # eq. 7
        memory = torch.sigmoid(forgetting) * memory + torch.sigmoid(opening) * torch.tanh(candidate)  # eq. 8
        hidden = torch.sigmoid(leaving) * torch.tanh(memory)  # eq. 9
        return hidden, self.write(state, hidden, memory, read), attended

    def write(self, state: Tapes, hidden: Tensor, memory: Tensor, read: Tensor) -> Tapes:
        """The tapes with one more step on them."""
        key = self.score.prepare(hidden.unsqueeze(1)).projected
        return state.written(torch.cat([hidden, memory], -1).unsqueeze(1), key, read, self.bound)

    def forward(
        self, inputs: Float[Tensor, "batch time inputs"], state: Tapes
    ) -> tuple[Float[Tensor, "batch time width"], Tapes]:
        """Read vectors one after the other, from any state: the numbers of `step`, without its cost.

        Where the attention is recorded, it is computed again for the record; the numbers stay what they are.
        """
        weights = self._weights() if inputs.shape[1] and is_plain(inputs) else None
        if weights is None or not are_alike(inputs, *weights, *state):
            return by_steps(self.step, state, inputs, self.width)
        weight, bias, asking, key_weight, vector = weights
        asking, hidden_dim = 2 * asking, len(vector)
        given = torch.cat([weight[:, self.width :], asking[:, : self.inputs]])
        gates, queries = F.linear(inputs, given, F.pad(bias, (0, hidden_dim))).split([4 * self.width, hidden_dim], -1)
        made = kernel.run(
            gates,
            queries,
            torch.cat([weight[:, : self.width], asking[:, self.inputs :]]),
            2 * key_weight,
            vector,
            state.tape,
            2 * state.key,
            state.attended,
            self.bound,
        )
        key = made.key / 2
        if self.attention._forward_hooks:  # taps
            self._record_again(inputs, state, made.tape, key)
        return made.tape[..., : self.width], state.written(made.tape, key, made.attended, self.bound)

    def _weights(self) -> tuple[Tensor, ...] | None:
        """Of the gates (weight and bias) and of the score (query, key, v), where steps are computed from them alone."""
        attention = self.attention
        if is_hooked(attention) or not is_exactly(attention, Attention) or not is_softmax(attention.normalizer):
            return None
        if attention.refocus or (attention.training and attention.dropout):
            return None
        if not is_exactly(self, LSTMNLayer):
            return None
        gates = weights_of(self.gates, nn.Linear, "weight", "bias")
        scores = weights_of(attention.score, Additive, "query_weight", "key_weight", "vector")
        return None if gates is None or scores is None else gates + scores

    def _record_again(self, inputs: Tensor, state: Tapes, tape: Tensor, key: Tensor) -> None:
        """The attention of every step to the finished tapes, through the module whose calls are recorded."""
        each = zip(inputs.unbind(1), tape.split(1, 1), key.split(1, 1), strict=True)
        for now, written, projected in each:
            attended = self.attend(state, now)
            assert attended.context is not None
            state = state.written(written, projected, attended.context.squeeze(1).chunk(2, -1)[0], self.bound)


class LSTMNReader(nn.Module):
    """Layers one upon the other; the top one's hidden states are what was read. See `models.text.reader`.

    Args:
        settings: the choices.
        inputs: width of the inputs.
    """

    def __init__(self, settings: LSTMNSettings, inputs: int) -> None:
        super().__init__()
        self.inputs, self.width = inputs, settings.width
        widths = [inputs] + [settings.width] * (settings.layers - 1)
        self.layers = nn.ModuleList(
            LSTMNLayer(one, settings.width, settings.attention, settings.tape) for one in widths
        )
        self.dropout = Dropout(settings.dropout)

    def start(self, batch: int) -> tuple[Tapes, ...]:
        """The empty tapes of each layer."""
        return tuple(layer.start(batch) for layer in self.layers)  # type: ignore[operator]

    def forward(
        self, inputs: Float[Tensor, "batch time inputs"], state: tuple[Tapes, ...]
    ) -> tuple[Float[Tensor, "batch time width"], tuple[Tapes, ...]]:
        """All hidden states of the top layer, and the state after them.

        Raises:
            ShapeError: the inputs have another shape than this reader was made for.
        """
        check_sequences(inputs, self.inputs)
        if not is_exactly(self, LSTMNReader):
            return by_steps(self.step, state, inputs, self.width)
        after = []
        for number, layer in enumerate(self.layers):
            inputs, tapes = layer(self.dropout(inputs) if number else inputs, state[number])
            after.append(tapes)
        return inputs, tuple(after)

    def step(self, state: tuple[Tapes, ...], inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One vector; `attended` has each layer's attention to its own past, "past 0" that of the lowest.

        Raises:
            ShapeError: the inputs have another shape than this reader was made for, or other rows than the state.
        """
        check_step(inputs, self.inputs, state[0].tape.shape[0])
        after, attended = [], {}
        for number, layer in enumerate(self.layers):
            given = self.dropout(inputs) if number else inputs
            inputs, tapes, attended[f"past {number}"] = layer.step(state[number], given)  # type: ignore[operator]
            after.append(tapes)
        return StepOutput(inputs, tuple(after), attended)


class LSTMN(nn.Module):
    """See `layers.sequence.SequenceModel`.

    Args:
        settings: the choices.
        inputs: width of the inputs.
        outputs: width of the outputs.
    """

    def __init__(self, settings: LSTMNSettings, inputs: int, outputs: int) -> None:
        super().__init__()
        self.settings, self.outputs = settings, outputs
        self.reader = LSTMNReader(settings, inputs)
        self.readout = nn.Linear(settings.width, outputs)

    def start(self, batch: int) -> tuple[Tapes, ...]:
        """The empty tapes of each layer."""
        return self.reader.start(batch)

    def step(self, state: tuple[Tapes, ...], inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One time step, and its attention."""
        after = self.reader.step(state, inputs)
        return after._replace(output=self.readout(after.output))

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """All steps from empty tapes."""
        state = self.start(inputs.shape[0])
        if not is_exactly(self, LSTMN):
            return by_steps(self.step, state, inputs, self.outputs)[0]
        hidden, _ = self.reader(inputs, state)
        outputs: Tensor = self.readout(hidden)
        return outputs


def initialize_gates(gates: nn.Linear, width: int) -> None:
    """Each gate by itself: orthogonal over what was read, Xavier over the rest; forget bias 1, other biases 0."""
    with torch.no_grad():
        for gate in gates.weight.chunk(4):
            nn.init.orthogonal_(gate[:, :width])
            nn.init.xavier_uniform_(gate[:, width:])
        gates.bias.zero_()
        gates.bias[width : 2 * width] = 1
