"""Two long short-term memory-networks, an encoder and a decoder, and how they are joined.

Cheng, Dong & Lapata 2016, section 4; the numbers beside the lines are its equations. Both attend to their own past
(intra-attention); the decoder attends to the encoder's tapes, too (inter-attention).

shallow    x[t], h[t−1] ── attend to the source ── γ̃[t] ── [x[t]; γ̃[t]] ── an LSTMN as it is
deep       x[t], γ̃[t−1] ── attend to the source ── γ̃[t], α̃[t] ── the source's memory enters the target's by a gate r
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attention
from regard.attention.attended import Attended
from regard.attention.parts import masks
from regard.attention.parts.score import Additive
from regard.attention.parts.score_base import Prepared
from regard.layers.decoder import State
from regard.layers.sequence import StepOutput
from regard.models.memory.lstmn import LSTMNLayer, Tapes


class Source(NamedTuple):
    """What the reading of a source left.

    Attributes:
        tape: γ (hidden states) and α (memories), side by side.
        key: `W_γ γ`, projected once.
        lengths: real positions of each row.
    """

    tape: Float[Tensor, "batch positions two_width"]
    key: Float[Tensor, "batch positions attention"]
    lengths: Int[Tensor, " batch"]


class Moving(NamedTuple):
    """What changes from step to step.

    Attributes:
        past: the target's own tapes.
        before: h[t−1] for shallow fusion, γ̃[t−1] for deep fusion; 0 before the first step.
    """

    past: Tapes
    before: Float[Tensor, "batch width"]


class Fusion(nn.Module):
    """The base of both: an encoder, and what a decoder's step has in common.

    Args:
        source_inputs: width of the source's vectors.
        inputs: width of the target's vectors.
        width: of all hidden states and memories.
        attention: width of v and u in the scores.
    """

    def __init__(self, source_inputs: int, inputs: int, width: int, attention: int) -> None:
        super().__init__()
        self.width = width
        self.encoder = LSTMNLayer(source_inputs, width, attention)
        self.decoder = self._decoder(inputs, width, attention)
        self.inter = self._inter(inputs, width, attention)

    def _decoder(self, inputs: int, width: int, attention: int) -> LSTMNLayer:
        raise NotImplementedError

    def _inter(self, inputs: int, width: int, attention: int) -> Attention:
        raise NotImplementedError

    def encode(
        self, source: Float[Tensor, "batch positions source_inputs"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Source:
        """Read a source; what lies beyond a row's length changes nothing, whatever it is."""
        batch, positions, _ = source.shape
        if lengths is None:
            lengths = torch.full((batch,), positions, device=source.device)
        real = torch.arange(positions, device=source.device) < lengths.unsqueeze(-1)
        _, tapes = self.encoder(torch.where(real.unsqueeze(-1), source, 0), self.encoder.start(batch))
        score = self.inter.score
        return Source(tapes.tape, score.prepare(tapes.hidden).projected, lengths)

    def start(self, memory: Source, batch: int) -> State:
        """The state before the first step."""
        return State(memory, Moving(self.decoder.start(batch), memory.tape.new_zeros(batch, self.width)))

    def align(self, source: Source, query: Float[Tensor, "batch query_dim"]) -> Attended:
        """Attend to the source (eq. 10, 11, 12); the context is γ̃ and α̃, side by side."""
        hidden, _ = source.tape.chunk(2, -1)
        attended: Attended = self.inter(
            query.unsqueeze(1), Prepared(hidden, source.key), source.tape, mask=masks.padding(source.lengths)
        )
        return attended

    def step(self, state: State, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """Read one vector of the target; `attended` has "past" (its own) and "source"."""
        raise NotImplementedError

    def forward(
        self,
        source: Float[Tensor, "batch positions source_inputs"],
        target: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """The decoder's hidden states over a whole target."""
        state = self.start(self.encode(source, lengths), len(target))
        hidden = [target.new_zeros(len(target), 0, self.width)]
        for inputs in target.unbind(1):
            after = self.step(state, inputs)
            state = after.state
            hidden.append(after.output.unsqueeze(1))
        return torch.cat(hidden, 1)


class ShallowFusion(Fusion):
    """An LSTMN in place of an encoder–decoder's LSTM; the attention to the source is that of Bahdanau et al. 2015."""

    def _decoder(self, inputs: int, width: int, attention: int) -> LSTMNLayer:
        return LSTMNLayer(inputs + width, width, attention)

    def _inter(self, inputs: int, width: int, attention: int) -> Attention:
        return Attention(Additive(query_dim=width, key_dim=width, hidden_dim=attention))

    def step(self, state: State, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One step of the target: attend to the source from h[t−1], then an LSTMN step over [x[t]; γ̃[t]]."""
        aligned = self.align(state.fixed, state.moving.before)
        assert aligned.context is not None
        found, _ = aligned.context.squeeze(1).chunk(2, -1)
        hidden, past, attended = self.decoder.step(state.moving.past, torch.cat([inputs, found], -1))
        return StepOutput(hidden, State(state.fixed, Moving(past, hidden)), {"past": attended, "source": aligned})


class DeepFusion(Fusion):
    """The source's memory enters the target's own memory, by a gate beside those of the cell."""

    def __init__(self, source_inputs: int, inputs: int, width: int, attention: int) -> None:
        super().__init__(source_inputs, inputs, width, attention)
        self.transfer = nn.Linear(width + inputs, width)  # W_r over [γ̃[t]; x[t]]

    def _decoder(self, inputs: int, width: int, attention: int) -> LSTMNLayer:
        return LSTMNLayer(inputs, width, attention)

    def _inter(self, inputs: int, width: int, attention: int) -> Attention:
        return Attention(Additive(query_dim=inputs + width, key_dim=width, hidden_dim=attention))

    def step(self, state: State, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One step of the target: both attentions, then the gates; r lets the source's memory in (eq. 13 to 15)."""
        past, before = state.moving
        attended = self.decoder.attend(past, inputs)  # eq. 4, 5, 6
        aligned = self.align(state.fixed, torch.cat([inputs, before], -1))  # eq. 10, 11, 12
        assert attended.context is not None and aligned.context is not None
        read, memory = attended.context.squeeze(1).chunk(2, -1)
        found, found_memory = aligned.context.squeeze(1).chunk(2, -1)
        opening, forgetting, leaving, candidate = self.decoder.gates(torch.cat([read, inputs], -1)).chunk(4, -1)  # 7
        transfer = torch.sigmoid(self.transfer(torch.cat([found, inputs], -1)))  # eq. 13
        kept = transfer * found_memory + torch.sigmoid(forgetting) * memory
        memory = kept + torch.sigmoid(opening) * torch.tanh(candidate)  # eq. 14
        hidden = torch.sigmoid(leaving) * torch.tanh(memory)  # eq. 15
        written = self.decoder.write(past, hidden, memory, read)
        return StepOutput(hidden, State(state.fixed, Moving(written, found)), {"past": attended, "source": aligned})
