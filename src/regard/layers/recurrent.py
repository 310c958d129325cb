"""Recurrent layers: an encoder that reads both ways and the recurrence that a decoder steps through.

torch's GRU and LSTM do the arithmetic; here are the promises that a translator needs of them. Padding never changes a
state or a result, states are batch first, and one step equals the same step inside a long call.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.errors import ConfigError, ShapeError, nearest
from regard.layers.dropout import Dropout

CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}

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
        self.each = nn.ModuleList(
            _initialized(_cell(cell)(width, hidden_dim, batch_first=True, bidirectional=True)) for width in widths
        )
        self.dropout = Dropout(dropout)

    def forward(
        self, inputs: Float[Tensor, "batch positions input_dim"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Encoded:
        """Read the first `lengths` positions of each row (all of them if None); the rest may hold anything.

        Raises:
            ShapeError: a length is negative or larger than the number of positions.
        """
        lengths = None if lengths is None else _where_ragged(inputs, lengths)
        if lengths is not None:
            steps = torch.arange(inputs.shape[1], device=inputs.device)
            inputs = torch.where((steps < lengths[:, None])[..., None], inputs, 0)
        finals = []
        for number, layer in enumerate(self.each):
            if number:
                inputs = self.dropout(inputs)
            inputs, final = _both_ways(layer, inputs, lengths)
            finals.append(tuple(part.transpose(0, 1).flatten(1) for part in final))
        final = tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))
        if lengths is not None:
            seen = (lengths > 0)[:, None, None]
            inputs, final = torch.where(seen, inputs, 0), tuple(torch.where(seen, part, 0) for part in final)
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
        self.cell, self.hidden_dim, self.layers = cell, hidden_dim, layers
        self.parts = 2 if cell == "lstm" else 1
        widths = [input_dim] + [hidden_dim] * (layers - 1)
        self.each = nn.ModuleList(_initialized(_cell(cell)(width, hidden_dim, batch_first=True)) for width in widths)
        self.dropout = Dropout(dropout)

    def forward(
        self, inputs: Float[Tensor, "batch n input_dim"], state: Carried
    ) -> tuple[Float[Tensor, "batch n hidden_dim"], Carried]:
        """The top layer's outputs at each of the n steps, and the state after them."""
        run = self._step if inputs.shape[1] == 1 else self._sequence
        finals = []
        for number, layer in enumerate(self.each):
            if number:
                inputs = self.dropout(inputs)
            inputs, final = run(layer, inputs, tuple(part[:, number] for part in state))
            finals.append(final)
        after = tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))
        # Under autocast the products are shorter numbers; the state keeps its own kind from step to step.
        return inputs, tuple(new.to(old.dtype) for new, old in zip(after, state, strict=True))

    def _step(self, layer: nn.Module, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        weights: Any = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        if self.cell == "lstm":
            state = torch.lstm_cell(inputs[:, 0], state, *weights)
        else:
            state = (torch.gru_cell(inputs[:, 0], state[0], *weights),)
        return state[0].unsqueeze(1), state

    def _sequence(
        self, layer: nn.Module, inputs: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        if inputs.shape[0] == 0 or inputs.shape[1] == 0:
            return inputs.new_zeros(*inputs.shape[:2], self.hidden_dim), state
        first = tuple(part.unsqueeze(0).contiguous() for part in state)
        outputs, last = _run(layer, inputs, first)
        return outputs, tuple(part.squeeze(0) for part in last)


def _cell(name: str) -> type[nn.GRU] | type[nn.LSTM]:
    if name not in CELLS:
        raise ConfigError(f"no recurrent cell is named {name!r}.{nearest(name, CELLS)}")
    return CELLS[name]


def _initialized(layer: nn.GRU | nn.LSTM) -> nn.GRU | nn.LSTM:
    """Orthogonal recurrent matrices, Xavier input matrices (each gate by itself), forget bias 1, other biases 0."""
    gates = 4 if isinstance(layer, nn.LSTM) else 3
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "bias" in name:
                parameter.zero_()
                if gates == 4 and "bias_ih" in name:
                    parameter.chunk(gates)[1].fill_(1)  # torch's order: input, forget, cell, output
                continue
            for gate in parameter.chunk(gates):
                (nn.init.orthogonal_ if "weight_hh" in name else nn.init.xavier_uniform_)(gate)
    return layer


def _where_ragged(inputs: Tensor, lengths: Tensor) -> Tensor | None:
    """The lengths, or None where every row is full."""
    positions, numbers = inputs.shape[1], lengths.tolist()
    if any(not 0 <= length <= positions for length in numbers):
        raise ShapeError(f"lengths {numbers} do not fit inputs of shape {tuple(inputs.shape)}")
    return lengths if any(length != positions for length in numbers) else None


def _both_ways(layer: nn.Module, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """States (batch, positions, 2 · dim) and last states (2, batch, dim) of one layer."""
    batch, positions, _ = inputs.shape
    if batch == 0 or positions == 0:
        dim = int(layer.hidden_size)  # type: ignore[arg-type]
        final = inputs.new_zeros(2, batch, dim)
        return inputs.new_zeros(batch, positions, 2 * dim), (final,) * (2 if isinstance(layer, nn.LSTM) else 1)
    if lengths is None:
        return _run(layer, inputs)  # without padding the fused layer is exact and needs no packing
    # A row of length 0 cannot be packed: it reads one zero, and what comes of it is hidden by the caller.
    packed = pack_padded_sequence(inputs, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
    read, last = _run(layer, packed)
    return pad_packed_sequence(read, batch_first=True, total_length=positions)[0], last


def _run(
    layer: nn.Module, inputs: Tensor | PackedSequence, state: tuple[Tensor, ...] | None = None
) -> tuple[Any, tuple[Tensor, ...]]:
    """Outputs and last state of a fused layer.

    Under CPU autocast torch's LSTM fails on a processor without 16-bit instructions; there it stays in float32.
    """
    device = (inputs.data if isinstance(inputs, PackedSequence) else inputs).device.type
    context: AbstractContextManager[object] = nullcontext()
    if isinstance(layer, nn.LSTM) and device == "cpu" and torch.is_autocast_enabled("cpu") and not _has_bfloat16():
        context = torch.autocast("cpu", enabled=False)
        inputs = inputs.float()
        state = None if state is None else tuple(part.float() for part in state)
    with context:
        outputs, last = layer(inputs, state if state is None or isinstance(layer, nn.LSTM) else state[0])
    return outputs, last if isinstance(last, tuple) else (last,)


def _has_bfloat16() -> bool:
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported and torch.get_autocast_dtype("cpu") == torch.bfloat16
