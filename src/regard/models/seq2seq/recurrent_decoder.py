"""Recurrent decoders: the orders of Bahdanau (2015) and Luong (2015), and the fixed context without attention.

Each is one reading of "what was written so far, and the source, give the next word". The base holds what they share;
a subclass says in `read` in which order it steps and attends.
"""

import operator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from regard.attention.attended import Attended
from regard.kernels.autograd.hooks import is_exactly, is_hooked
from regard.kernels.recurrent.deferred import expectation_of_loop, linear_of_loop
from regard.layers.decoder import State, Step, concatenated
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Linear, Recurrence
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.seq2seq.source_attention import SourceAttention

SOURCE = "source"


class Memory(NamedTuple):
    """What the encoder gives.

    Attributes:
        states: one vector a source position, 0 at padding.
        lengths: how many positions are real.
        final: the encoder's last states, by layer; an LSTM's hidden and cell states.
    """

    states: Float[Tensor, "batch keys states_dim"]
    lengths: Int[Tensor, " batch"]
    final: tuple[Float[Tensor, "batch layers states_dim"], ...]


class Reading(NamedTuple):
    """What n inputs gave: the vectors that the output layer reads, the state after them, and the attention."""

    features: Float[Tensor, "batch n readout_dim"]
    moving: dict[str, Any]
    attended: Attended | None


class RealTokens(NamedTuple):
    """Which tokens of a batch are real, in training: nothing is computed for padding.

    Attributes:
        lengths: how many each row has, its first ones.
        places: where they lie in `(batch · n)`.
    """

    lengths: Int[Tensor, " batch"]
    places: Int[Tensor, " tokens"]

    @staticmethod
    def of(real: "RealTokens | None", x: Float[Tensor, "batch n dim"]) -> Float[Tensor, "*rows dim"]:
        """The vectors at the real words alone; all vectors where `real` is None."""
        return x if real is None else x.flatten(0, 1).index_select(0, real.places)


class RecurrentDecoder(nn.Module):
    """What the three decoders share: word vectors, the first state, the recurrence and the output layer.

    Args:
        settings: the model's.
        vocabulary: number of target words.
        states_dim: width of the encoder's states.
        context_dim: width of what enters the recurrence beside the word vector.
    """

    alignment: str | None = SOURCE
    # Whether step t needs what step t − 1 read, so that n steps are a loop of single ones.
    loops: bool = False

    def __init__(self, settings: RecurrentSettings, vocabulary: int, states_dim: int, context_dim: int) -> None:
        super().__init__()
        self.readout_dim = settings.readout_dim or settings.embedding_dim
        self.layers, self.dim = settings.decoder_layers, settings.state_dim
        self.embedding = embedding(vocabulary, settings.embedding_dim)
        self.recurrence = Recurrence(
            settings.cell, settings.embedding_dim + context_dim, self.dim, self.layers, settings.dropout
        )
        self.bridge = nn.ModuleList(nn.Linear(states_dim, self.layers * self.dim) for _ in range(self.recurrence.parts))
        self.dropout = Dropout(settings.dropout)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))
        if settings.tied == "none":
            self.output = nn.Parameter(torch.empty(vocabulary, self.readout_dim))
            nn.init.xavier_uniform_(self.output)
        else:
            self.register_parameter("output", None)  # the table of word vectors serves, and is saved once

    def start(self, memory: Memory, batch: int) -> State:
        """The state before the first word: `s_0 = tanh(W_s [→h_S; ←h_1])` (Bahdanau 2015, A.2.2, with both directions).

        An LSTM's cell state is a linear map of the encoder's.
        """
        first = [to(final[:, -1]) for to, final in zip(self.bridge, memory.final, strict=True)]
        first[0] = torch.tanh(first[0])
        carried = tuple(part.unflatten(-1, (self.layers, self.dim)) for part in first)
        fixed, moving = self.source_state(memory)
        return State(fixed, {"carried": carried, **moving})

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Read n words and score the next one after each."""
        reading = self.features(state, inputs)
        attended = {} if reading.attended is None else {SOURCE: reading.attended}
        return Step(self.vocabulary(reading.features), State(state.fixed, reading.moving), attended)

    def features(self, state: State, inputs: Int[Tensor, "batch n"]) -> Reading:
        """The n vectors that `vocabulary` makes logits of.

        Args:
            state: what was read before.
            inputs: n words.
        """
        embedded = self.dropout(self.embedding(inputs))
        if not self.loops or inputs.shape[1] == 1:
            return self.read(state.fixed, state.moving, embedded)
        readings, moving = [], state.moving
        for one in embedded.split(1, dim=1):
            readings.append(self.read(state.fixed, moving, one))
            moving = readings[-1].moving
        attentions = [reading.attended for reading in readings if reading.attended is not None]
        return Reading(torch.cat([reading.features for reading in readings], dim=1), moving, concatenated(attentions))

    def real_features(
        self, state: State, inputs: Int[Tensor, "batch n"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "tokens readout_dim"]:
        """The same for training: at the first `lengths` words of each row alone, one row after the other.

        What comes after them is mostly not computed, unless a subclass has `features` of its own.
        """
        real = torch.arange(inputs.shape[1], device=lengths.device) < lengths.unsqueeze(-1)
        if not is_exactly(self, *DECODERS):
            return self.features(state, inputs).features[real]
        embedded = self.dropout(self.embedding(inputs))
        if self.loops and inputs.shape[1] > 1:
            return self._shrinking_batch(state, embedded, lengths, real)
        places = real.flatten().nonzero().squeeze(-1)
        return self.read(state.fixed, state.moving, embedded, RealTokens(lengths, places)).features

    def _shrinking_batch(self, state: State, embedded: Tensor, lengths: Tensor, real: Tensor) -> Tensor:
        """A loop whose batch shrinks: ended rows leave once they are an eighth of it, for leaving costs a copy."""
        _, order = lengths.sort(descending=True, stable=True)
        fixed, moving, embedded = tree_map(lambda leaf: leaf[order], (state.fixed, state.moving, embedded))
        living = real.sum(0)
        rows, linear = len(order), linear_of_loop(embedded)
        features: list[Tensor] = []
        for one, live in zip(embedded.split(1, dim=1), living.tolist(), strict=True):
            if not live and features:
                break
            if live <= rows * 7 // 8:
                rows = max(1, live)
                fixed, moving = tree_map(operator.itemgetter(slice(rows)), (fixed, moving))
            reading = self.read(fixed, moving, one[:rows], linear=linear)
            moving = reading.moving
            features.append(reading.features[:live, 0])
        # Step by step they lie, the longest rows first: each row's own are to lie together.
        starts = living.cumsum(0) - living
        return torch.cat(features).index_select(0, (starts + order.argsort().unsqueeze(-1))[real])

    def vocabulary(self, features: Float[Tensor, "*rows readout_dim"]) -> Float[Tensor, "*rows choices"]:
        """Logits of all target words."""
        return F.linear(features, *self.output_weights())

    def output_weights(self) -> tuple[Float[Tensor, "choices readout_dim"], Float[Tensor, " choices"]]:
        """The output layer's matrix and bias."""
        return self.embedding.weight if self.output is None else self.output, self.output_bias

    def _read_out(self, x: Tensor, linear: Linear) -> Tensor:
        """By the readout layer; of a single step by `linear`, if the layer is no more than its weights."""
        layer: Any = self.readout
        if linear is F.linear or type(layer) is not nn.Linear or is_hooked(layer):
            return layer(x)
        return linear(x[:, 0], layer.weight, layer.bias).unsqueeze(1)

    def _attend(
        self, fixed: dict[str, Any], moving: dict[str, Any], query: Tensor, embedded: Tensor, linear: Linear
    ) -> tuple[Attended, Tensor, dict[str, Any]]:
        """The attention, its context, and the attention's state after it; `linear` is that of a single step.

        In a loop only the weights are computed there, and the context is a product of the loop's own.
        """
        read = expectation_of_loop(linear)
        source: Any = self.source
        if read is None or type(source) is not SourceAttention or not source.is_expectation():
            attended, after = source(fixed, moving, query, embedded)
            return attended, attended.context, after
        attended, after = source({**fixed, "value": None}, moving, query, embedded)
        return attended, read(attended.weights.to(fixed["value"].dtype), fixed["value"]), after

    def source_state(self, memory: Memory) -> tuple[dict[str, Any], dict[str, Any]]:
        """The decoder's state for a source: what stays fixed, and what changes at each step."""
        raise NotImplementedError

    def read(
        self,
        fixed: dict[str, Any],
        moving: dict[str, Any],
        embedded: Tensor,
        real: RealTokens | None = None,
        linear: Linear = F.linear,
    ) -> Reading:
        """The n word vectors `(batch, n, embedding_dim)` after the state `moving`; n is 1 where the decoder loops.

        Where `real` is given, the features are those of the real words alone, `(tokens, readout_dim)`. `linear` makes
        the products of a single step.
        """
        raise NotImplementedError


class LuongDecoder(RecurrentDecoder):
    """Step, then attend (Luong, Pham & Manning 2015): h_t → a_t → c_t → h̃_t.

    With input feeding (§3.3) h̃ enters the next step. Without it, and without a score that uses earlier weights, n
    words are one call of the recurrence and one call of the attention.
    """

    def __init__(self, settings: RecurrentSettings, vocabulary: int, states_dim: int) -> None:
        readout_dim = settings.readout_dim or settings.embedding_dim
        super().__init__(settings, vocabulary, states_dim, readout_dim if settings.input_feeding else 0)
        self.feeding = settings.input_feeding
        self.source = SourceAttention(settings, self.dim, settings.embedding_dim, states_dim)
        self.loops = self.feeding or self.source.uses_previous_weights
        self.readout = nn.Linear(self.dim + states_dim, self.readout_dim, bias=False)

    def source_state(self, memory: Memory) -> tuple[dict[str, Any], dict[str, Any]]:
        """The attention's, and h̃ of the step before, 0 at first, with input feeding."""
        fixed, moving = self.source.start(memory.states, memory.lengths)
        if self.feeding:
            moving["fed"] = memory.states.new_zeros(len(memory.states), self.readout_dim)
        return fixed, moving

    def read(
        self,
        fixed: dict[str, Any],
        moving: dict[str, Any],
        embedded: Tensor,
        real: RealTokens | None = None,
        linear: Linear = F.linear,
    ) -> Reading:
        """h_t by the recurrence, then c_t and h̃_t; see `RecurrentDecoder.read`."""
        inputs = torch.cat([embedded, moving["fed"].unsqueeze(1)], dim=-1) if self.feeding else embedded
        hidden, carried = self.recurrence(
            inputs, moving["carried"], None if real is None else real.lengths, linear
        )  # h_t
        attended, pair, after = self._pair(fixed, moving, hidden, embedded, real, linear)
        pair = self.dropout(pair)
        features = self.dropout(torch.tanh(self._read_out(pair, linear)))  # h̃_t = tanh(W_c [c_t; h_t]), eq. 5
        after["carried"] = carried
        if self.feeding:
            after["fed"] = features.squeeze(1).to(moving["fed"].dtype)
        return Reading(features, after, attended)

    def _pair(
        self,
        fixed: dict[str, Any],
        moving: dict[str, Any],
        hidden: Tensor,
        embedded: Tensor,
        real: RealTokens | None,
        linear: Linear,
    ) -> tuple[Attended | None, Tensor, dict[str, Any]]:
        """The attention, None where only the context is needed; [h_t; c_t]; the attention's state after it."""
        source: Any = self.source
        if real is not None and type(source) is SourceAttention:
            pairs = source.real_pairs(fixed, hidden, real.places, real.lengths)
            if pairs is not None:
                return None, pairs, dict(moving)
        attended, context, after = self._attend(fixed, moving, hidden, embedded, linear)  # a_t, eq. 7; c_t
        context = context.to(hidden.dtype)
        return attended, torch.cat([RealTokens.of(real, hidden), RealTokens.of(real, context)], dim=-1), after


class BahdanauDecoder(RecurrentDecoder):
    """Attend, then step (Bahdanau, Cho & Bengio 2015): s_{t−1} → α_t → c_t → s_t.

    The cell is torch's GRU (or LSTM), whose reset gate multiplies U s instead of s. The readout reads s_t, as eq. 4
    says; the appendix prints s_{t−1}.
    """

    loops = True

    def __init__(self, settings: RecurrentSettings, vocabulary: int, states_dim: int) -> None:
        super().__init__(settings, vocabulary, states_dim, states_dim)
        self.source = SourceAttention(settings, self.dim, settings.embedding_dim, states_dim)
        self.readout = nn.Linear(self.dim + settings.embedding_dim + states_dim, 2 * self.readout_dim, bias=False)

    def source_state(self, memory: Memory) -> tuple[dict[str, Any], dict[str, Any]]:
        """The attention's."""
        return self.source.start(memory.states, memory.lengths)

    def read(
        self,
        fixed: dict[str, Any],
        moving: dict[str, Any],
        embedded: Tensor,
        real: RealTokens | None = None,
        linear: Linear = F.linear,
    ) -> Reading:
        """c_t from s_{t−1}, then s_t by the recurrence; see `RecurrentDecoder.read`."""
        before = moving["carried"][0][:, -1:]  # s_{t−1}, the top layer's
        attended, context, after = self._attend(fixed, moving, before, embedded, linear)  # α_t, eq. 6; c_t, eq. 5
        context = context.to(embedded.dtype)
        hidden, after["carried"] = self.recurrence(
            torch.cat([embedded, context], dim=-1), moving["carried"], linear=linear
        )  # s_t
        whole = self.dropout(RealTokens.of(real, torch.cat([hidden, embedded, context], dim=-1)))
        pairs = self._read_out(whole, linear).unflatten(-1, (self.readout_dim, 2))  # t̃_t = U_o s + V_o E y + C_o c
        return Reading(self.dropout(pairs.amax(-1)), after, attended)  # t_t: the larger of each pair


class FixedContextDecoder(RecurrentDecoder):
    """No attention: the source is one vector, the encoder's last state.

    It starts the decoder (Sutskever, Vinyals & Le 2014) and, unless `fixed_context` is "start", enters every step and
    the readout as well (Cho et al. 2014).
    """

    alignment = None

    def __init__(self, settings: RecurrentSettings, vocabulary: int, states_dim: int) -> None:
        every_step = settings.fixed_context == "every_step"
        context_dim = states_dim if every_step else 0
        super().__init__(settings, vocabulary, states_dim, context_dim)
        self.every_step = every_step
        self.readout = nn.Linear(self.dim + context_dim, self.readout_dim, bias=False)

    def source_state(self, memory: Memory) -> tuple[dict[str, Any], dict[str, Any]]:
        """The encoder's last state, where every step reads it; nothing otherwise."""
        return ({"context": memory.final[0][:, -1]} if self.every_step else {}), {}

    def read(
        self,
        fixed: dict[str, Any],
        moving: dict[str, Any],
        embedded: Tensor,
        real: RealTokens | None = None,
        linear: Linear = F.linear,
    ) -> Reading:
        """The recurrence over [word vector; context]; see `RecurrentDecoder.read`."""
        context = [part.unsqueeze(1).expand(-1, embedded.shape[1], -1) for part in fixed.values()]
        hidden, carried = self.recurrence(
            torch.cat([embedded, *context], dim=-1), moving["carried"], None if real is None else real.lengths
        )
        pair = RealTokens.of(real, torch.cat([hidden, *context], dim=-1))
        features = torch.tanh(self.readout(self.dropout(pair)))
        return Reading(self.dropout(features), {"carried": carried}, None)


def recurrent_decoder(settings: RecurrentSettings, vocabulary: int, states_dim: int) -> RecurrentDecoder:
    """The decoder that the settings describe."""
    if not settings.attends:
        return FixedContextDecoder(settings, vocabulary, states_dim)
    orders = {"luong": LuongDecoder, "bahdanau": BahdanauDecoder}
    return orders[settings.order](settings, vocabulary, states_dim)


def embedding(vocabulary: int, dim: int) -> nn.Embedding:
    """Word vectors of length about 1; padding (id 0) is 0 and stays so."""
    table = nn.Embedding(vocabulary, dim, padding_idx=0)
    nn.init.normal_(table.weight, std=dim**-0.5)
    with torch.no_grad():
        table.weight[0].zero_()
    return table


DECODERS = LuongDecoder, BahdanauDecoder, FixedContextDecoder
"""The kinds of decoder that are known; a subclass of one is called, right and slower."""
