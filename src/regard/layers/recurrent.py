"""Recurrent layers: an encoder that reads both ways and the recurrence that a decoder steps through.

torch's GRU and LSTM do the arithmetic; here are the promises that a translator needs of them. Padding never changes a
state or a result, states are batch first, and one step equals the same step inside a long call.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import ConfigError, ShapeError, nearest
from regard.kernels.autograd.hooks import is_hooked, overrides
from regard.kernels.recurrent import recurrent as kernel
from regard.layers.dropout import Dropout

LAYERS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}
CELLS: dict[str, type[nn.GRUCell] | type[nn.LSTMCell]] = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}
_TORCHS = *LAYERS.values(), *CELLS.values()

# As `F.linear`: what makes the products of a step.
Linear = Callable[..., Tensor]

# Input and recurrent weight, input and recurrent bias.
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
Weights = tuple[Tensor, Tensor, Tensor, Tensor]

# What a cell carries, batch first: `(hidden,)` of a GRU, `(hidden, memory)` of an LSTM.
Carried = tuple[Float[Tensor, "batch layers hidden_dim"], ...]


class Encoded(NamedTuple):
    """What an encoder gives.

    Attributes:
        states: the top layer at each position, forwards then backwards; 0 at padding.
        final: the state after the last real position (forwards) and after the first (backwards), side by side, of each
            layer; an LSTM has a second one, its memory. 0 for a row of length 0.
    """

    states: Float[Tensor, "batch positions states_dim"]
    final: tuple[Float[Tensor, "batch layers states_dim"], ...]


class BidirectionalEncoder(nn.Module):
    """A GRU or LSTM that reads each sequence forwards and backwards, within its own length.

    Args:
        cell: "gru" or "lstm".
        input_dim: width of the inputs.
        hidden_dim: width of each direction; the states are twice as wide.
        layers: how many, one upon the other.
        dropout: between layers.
    """

    def __init__(self, cell: str, input_dim: int, hidden_dim: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers, self.states_dim = layers, 2 * hidden_dim
        widths = [input_dim] + [2 * hidden_dim] * (layers - 1)
        made = _known(cell, LAYERS)
        self.each = nn.ModuleList(
            _initialized(made(width, hidden_dim, batch_first=True, bidirectional=True)) for width in widths
        )
        self.dropout = Dropout(dropout)

    def forward(
        self, inputs: Float[Tensor, "batch positions input_dim"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Encoded:
        """Read the first `lengths` positions of each row (all of them if None); the rest may hold anything.

        Raises:
            ShapeError: a length is negative or larger than the number of positions.
        """
        lengths, filled = (None, None) if lengths is None else _where_ragged(inputs, lengths)
        if filled is not None:  # an empty row is read as one position: what stands there is 0
            inputs = torch.where(filled, inputs, 0)
        finals = []
        for number, layer in enumerate(self.each):
            if number:
                inputs = self.dropout(inputs)
            inputs, final = _both_ways(layer, inputs, lengths)
            finals.append(tuple(part.transpose(0, 1).flatten(1) for part in final))
        final = tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))
        if filled is not None:
            inputs, final = torch.where(filled, inputs, 0), tuple(torch.where(filled, part, 0) for part in final)
        return Encoded(inputs, final)


class Recurrence(nn.Module):
    """A GRU or LSTM that starts from a given state: n > 1 steps in one fused call, one step by its cell.

    Args:
        cell: "gru" or "lstm".
        input_dim: width of the inputs.
        hidden_dim: width of the state and of the outputs.
        layers: how many, one upon the other.
        dropout: between layers.
    """

    def __init__(self, cell: str, input_dim: int, hidden_dim: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.cell, self.input_dim, self.hidden_dim, self.layers = cell, input_dim, hidden_dim, layers
        self.parts = 2 if cell == "lstm" else 1
        widths = [input_dim] + [hidden_dim] * (layers - 1)
        made = _known(cell, CELLS)
        self.each = nn.ModuleList(_initialized(made(width, hidden_dim)) for width in widths)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        inputs: Float[Tensor, "batch n input_dim"],
        state: Carried,
        lengths: Int[Tensor, " batch"] | None = None,
        linear: Linear = F.linear,
    ) -> tuple[Float[Tensor, "batch n hidden_dim"], Carried]:
        """The top layer's outputs at each of the n steps, and the state after them.

        Beyond a row's length, where lengths are given, nothing is promised: outputs there, and the state after a row
        that ends early, may be anything finite. A GRU's single step makes its products by `linear`.

        Raises:
            ShapeError: the inputs have another width. torch's fused LSTM takes any, and reads its weights wrongly.
        """
        if inputs.shape[-1] != self.input_dim:
            raise ShapeError(
                f"the inputs are {inputs.shape[-1]} wide, as {tuple(inputs.shape)}; expected {self.input_dim}"
            )
        finals = []
        for number, layer in enumerate(self.each):
            if number:
                inputs = self.dropout(inputs)
            before = tuple(part[:, number] for part in state)
            if inputs.shape[1] == 1:
                inputs, final = self._step(layer, inputs, before, linear)
            else:
                inputs, final = self._sequence(layer, inputs, before, lengths)
            finals.append(final)
        after = tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))
        # Under autocast the products are shorter numbers; the state keeps its own kind from step to step.
        return inputs, tuple(new.to(old.dtype) for new, old in zip(after, state, strict=True))

    def _step(
        self, cell: nn.Module, inputs: Tensor, state: tuple[Tensor, ...], linear: Linear
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        if linear is not F.linear and type(cell) is nn.GRUCell and not is_hooked(cell):
            state = (_gru_step(inputs[:, 0], state[0], _weights(cell), linear),)
            return state[0].unsqueeze(1), state
        after = cell(inputs[:, 0], state if len(state) > 1 else state[0])
        state = after if isinstance(after, tuple) else (after,)
        return state[0].unsqueeze(1), state

    def _sequence(
        self, cell: nn.Module, inputs: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        if inputs.shape[0] == 0 or inputs.shape[1] == 0:
            return inputs.new_zeros(*inputs.shape[:2], self.hidden_dim), state
        if _must_be_called(cell):
            each = []
            for one in inputs.split(1, dim=1):
                output, state = self._step(cell, one, state, F.linear)
                each.append(output)
            return torch.cat(each, dim=1), state
        weights = _weights(cell)
        # torch's LSTM without padding is one fused call.
        if len(state) == 1 and kernel.serves(inputs, *state, *weights):
            return kernel.sequence(inputs, state, weights, _or_whole(inputs, lengths))
        first = tuple(part.unsqueeze(0).contiguous() for part in state)
        outputs, *last = _fused(weights, inputs, first, cell.training)
        return outputs, tuple(part.squeeze(0) for part in last)


def _gru_step(x: Tensor, state: Tensor, weights: Weights, linear: Linear) -> Tensor:
    """A GRU's step as torch's cell makes it, its products by `linear`."""
    weight, recurrent, bias, recurrent_bias = weights
    return kernel.gru_step(linear(x, weight, bias), linear(state, recurrent, recurrent_bias), state)


def _fused(weights: Weights, inputs: Tensor, state: tuple[Tensor, ...], training: bool) -> tuple[Tensor, ...]:
    """Outputs and last state of all steps in one call, over the weights of the cell that makes single ones."""
    if len(state) > 1 and _must_be_float32(inputs.device):
        with torch.autocast("cpu", enabled=False):
            return _fused(weights, inputs.float(), tuple(part.float() for part in state), training)
    # with biases, 1 layer, no dropout, training or not, one direction, batch first
    how: Any = (weights, True, 1, 0.0, training, False, True)
    if len(state) > 1:
        return torch.lstm(inputs, state, *how)
    return torch.gru(inputs, state[0], *how)


def _both_ways(layer: nn.Module, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """States (batch, positions, 2 · dim) and last states (2, batch, dim) of one layer of the encoder."""
    batch, positions, _ = inputs.shape
    if batch == 0 or positions == 0:
        dim = int(layer.hidden_size)  # type: ignore[arg-type]
        final = inputs.new_zeros(2, batch, dim)
        return inputs.new_zeros(batch, positions, 2 * dim), (final,) * (2 if isinstance(layer, nn.LSTM) else 1)
    ways = _ways(layer, inputs) if lengths is not None or isinstance(layer, nn.GRU) else None
    if ways is not None:
        lengths, none = _or_whole(inputs, lengths), inputs.new_zeros(batch, int(layer.hidden_size))  # type: ignore[arg-type]
        first = (none,) * (2 if isinstance(layer, nn.LSTM) else 1)
        (ahead, ahead_last), (back, back_last) = (
            kernel.sequence(inputs, first, weights, lengths, backwards=number == 1)
            for number, weights in enumerate(ways)
        )
        return torch.cat([ahead, back], -1), tuple(map(torch.stack, zip(ahead_last, back_last, strict=True)))
    if lengths is None:
        return _run(layer, inputs)  # without padding torch's layer is exact and needs no packing
    # A row of length 0 cannot be packed: it reads one zero, and the caller masks out what comes of it.
    packed = pack_padded_sequence(inputs, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
    read, last = _run(layer, packed)
    return pad_packed_sequence(read, batch_first=True, total_length=positions)[0], last


def _ways(layer: Any, inputs: Tensor) -> tuple[Weights, Weights] | None:
    """The weights of both directions, if an encoder's layer may be computed from them: it is as the encoder makes it.

    Each is read once: a parametrized one is computed at each access.
    """
    if not kernel.serves(inputs) or _must_be_called(layer):
        return None
    if not layer.bidirectional or not layer.batch_first or layer.num_layers != 1 or layer.proj_size:
        return None
    ways = _weights(layer, "_l0"), _weights(layer, "_l0_reverse")
    return ways if kernel.serves(inputs, *ways[0], *ways[1]) else None


def _must_be_called(layer: Any) -> bool:
    """Whether a layer or cell has to be called: it has hooks, or is not torch's own with biases."""
    # A parametrization makes a subclass of the layer, whose weights are then made once for all steps.
    known = any(isinstance(layer, kind) and not overrides(layer, kind, "forward") for kind in _TORCHS)
    return not known or not layer.bias or is_hooked(layer)


def _run(layer: nn.Module, inputs: Any) -> tuple[Any, tuple[Tensor, ...]]:
    """Outputs and last states of an encoder's layer, over a tensor or what was packed."""
    if isinstance(layer, nn.LSTM) and _must_be_float32(inputs[0].device):
        with torch.autocast("cpu", enabled=False):
            return _run(layer, inputs.float())
    outputs, last = layer(inputs)
    return outputs, last if isinstance(last, tuple) else (last,)


def _weights(layer: Any, ending: str = "") -> Weights:
    """Of a cell, or of one direction of a layer."""
    one, other, bias, other_bias = (getattr(layer, name + ending) for name in WEIGHTS)
    return one, other, bias, other_bias


def _or_whole(inputs: Tensor, lengths: Tensor | None) -> Tensor:
    """The lengths, of empty rows 1; every row's whole where none are given."""
    whole = torch.full(inputs.shape[:1], inputs.shape[1], device=inputs.device)
    return whole if lengths is None else lengths.clamp_min(1)


def _must_be_float32(device: torch.device) -> bool:
    """Under CPU autocast torch's fused LSTM fails on a processor without 16-bit instructions."""
    if device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return False
    supported = torch.get_autocast_dtype("cpu") == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return not supported


def _where_ragged(inputs: Tensor, lengths: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The lengths, or None where every row is full; and where rows are not empty, `(batch, 1, 1)`, if some are."""
    positions, numbers = inputs.shape[1], lengths.tolist()
    if any(not 0 <= length <= positions for length in numbers):
        raise ShapeError(f"lengths {numbers} do not fit inputs of shape {tuple(inputs.shape)}")
    if all(length == positions for length in numbers):
        return None, None
    return lengths, (lengths > 0)[:, None, None] if 0 in numbers else None


def _known(name: str, kinds: dict[str, Any]) -> Any:
    if name not in kinds:
        raise ConfigError(f"no recurrent cell is named {name!r}.{nearest(name, kinds)}")
    return kinds[name]


def _initialized(layer: nn.Module) -> nn.Module:
    """Orthogonal recurrent matrices, Xavier input matrices (each gate by itself), forget bias 1, other biases 0."""
    is_lstm = isinstance(layer, nn.LSTM | nn.LSTMCell)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            gates = parameter.chunk(4 if is_lstm else 3)
            if "bias" in name:
                parameter.zero_()
                if is_lstm and "bias_ih" in name:
                    gates[1].fill_(1)  # torch's order: input, forget, cell, output
                continue
            for gate in gates:
                (nn.init.orthogonal_ if "weight_hh" in name else nn.init.xavier_uniform_)(gate)
    return layer
