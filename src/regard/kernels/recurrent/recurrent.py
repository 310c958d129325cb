"""GRU and LSTM over whole sequences with a hand-written backward: torch's numbers, for training on a CPU.

torch's own layers are there a graph of small operations for each step. Here the gates of all steps lie in one buffer,
so that the gradients of the weights are one matrix product over the sequence, and ended rows are not computed:
rows are sorted by length, and step t has the first `sizes[t]` of them. GRU: Cho et al. 2014, with torch's reset after
the product; LSTM: Hochreiter & Schmidhuber 1997, with forget gates (Gers et al. 2000).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.kernels.autograd.once_differentiable import graph_anchor, once_differentiable
from regard.kernels.autograd.plain import are_alike, is_plain, is_plain_tensor, materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native.huge_pages import in_large_pages
from regard.kernels.recurrent import gates


class Layout(NamedTuple):
    """Where the real positions of a batch lie when each step's are put together, longest rows first.

    Attributes:
        places: where each of them lies in `(batch · positions)`.
        sizes: rows at each step, never rising.
        order: the rows, longest first.
        last: where each row's last step lies, of the rows that have one.
    """

    places: Int[Tensor, " real"]
    sizes: list[int]
    order: Int[Tensor, " batch"]
    last: Int[Tensor, " rows"]

    @staticmethod
    def of(lengths: Int[Tensor, " batch"], positions: int, backwards: bool) -> "Layout":
        """The layout of rows that are read from their first position on, or from their last one back."""
        lengths, order = lengths.sort(descending=True, stable=True)
        steps = torch.arange(positions, device=lengths.device).unsqueeze(-1)
        real = steps < lengths
        places = (lengths - 1 - steps if backwards else steps) + order * positions
        rows = real.sum(-1)
        sizes = rows[: int(lengths[0])].tolist()
        ends = (rows.cumsum(0) - rows)[lengths[: sizes[0]] - 1]
        return Layout(places[real], sizes, order, ends + torch.arange(sizes[0], device=ends.device))

    def steps(self) -> Iterator[tuple[slice, slice]]:
        """For each step where its rows lie, and where those that they continue lay; the first continues none."""
        start, before = 0, 0
        for size in self.sizes:
            yield slice(start, start + size), slice(before, before + size)
            start, before = start + size, start


def serves(inputs: Tensor, *others: Tensor) -> bool:
    """Whether these gradients serve a call: not traced, mapped or narrowed, and on a CPU, where they are faster.

    Args:
        inputs: of the call.
        *others: its weights and states.
    """
    if not torch.is_grad_enabled() or inputs.device.type != "cpu" or not is_plain(inputs):
        return False
    return are_alike(inputs, *others)


def sequence(
    inputs: Float[Tensor, "batch positions input_dim"],
    state: tuple[Float[Tensor, "batch hidden_dim"], ...],
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    lengths: Int[Tensor, " batch"],
    backwards: bool = False,
) -> tuple[Float[Tensor, "batch positions hidden_dim"], tuple[Float[Tensor, "batch hidden_dim"], ...]]:
    """Outputs, 0 beyond each row's length, and the state after its last real step. Can be differentiated once.

    Args:
        inputs: what lies beyond a row's length is not read.
        state: `(hidden,)` makes it a GRU, `(hidden, memory)` an LSTM.
        weights: input and recurrent weight, input and recurrent bias, in torch's order of the gates.
        lengths: real positions of each row; a row of 0 keeps its state. At least one row has some.
        backwards: read each row from its last real position to its first.

    Raises:
        ShapeError: a weight or state has another type than the inputs, or lies on another device.
    """
    _check(inputs, weights, state)
    layout = Layout.of(lengths, inputs.shape[1], backwards)
    outputs, *last = _Sequence.apply(layout, graph_anchor(inputs), inputs, *weights, *state)
    return outputs, tuple(last)


def _check(inputs: Tensor, weights: tuple[Tensor, ...], state: tuple[Tensor, ...]) -> None:
    """The loops read numbers as if all were of the inputs' type."""
    kind, device = inputs.dtype, inputs.device
    for name, one in zip((*_WEIGHTS, *_STATES), (*weights, *state), strict=False):
        if one.dtype is not kind or one.device != device:
            raise ShapeError(
                f"the {name} is {one.dtype} on {one.device}, the inputs are {kind} on {device}: both must be the same"
            )


_WEIGHTS, _STATES = ("input weight", "recurrent weight", "input bias", "recurrent bias"), ("hidden state", "memory")


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: Layout, none: Tensor, inputs: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        weight, recurrent, bias, recurrent_bias, *state = given
        read = inputs.flatten(0, 1).index_select(0, layout.places)
        sums = in_large_pages(read.new_empty(len(read), len(weight)))
        torch.mm(read, weight.t(), out=sums)
        first = [part.index_select(0, layout.order) for part in state]
        run = _gru if len(state) == 1 else _lstm
        saved = run(layout, sums, first, recurrent.t(), bias, recurrent_bias)
        ctx.layout, ctx.shape, ctx.parts = layout, inputs.shape, len(state)
        ctx.save_for_backward(weight, recurrent, read, *first, *saved, none, bias, recurrent_bias, *state)
        outputs = inputs.new_zeros(inputs.shape[0] * inputs.shape[1], recurrent.shape[1])
        outputs.index_copy_(0, layout.places, saved[0])
        return outputs.view(*inputs.shape[:2], -1), *_last(layout, first, saved)

    @staticmethod
    @unbatched
    @once_differentiable("a GRU or LSTM over a whole sequence; a step at a time has them")
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        layout: Layout = ctx.layout
        upstream = materialized("a GRU or LSTM over a whole sequence", *upstream)
        weight, recurrent, read, *rest = ctx.saved_tensors
        first, saved = rest[: ctx.parts], rest[ctx.parts : ctx.parts + 3]
        grad_outputs = upstream[0].flatten(0, 1).index_select(0, layout.places)
        grad_state = [part.index_select(0, layout.order) for part in upstream[1:]]
        run = _gru_backwards if ctx.parts == 1 else _lstm_backwards
        entering, carried, bias, recurrent_bias = run(layout, grad_outputs, grad_state, first, saved, recurrent)
        earlier = [saved[0][before] for here, before in layout.steps() if here.start]
        hidden = torch.cat([first[0][: layout.sizes[0]], *earlier])
        own = entering.mm(weight) if ctx.needs_input_grad[2] else None
        inputs = None if own is None else own.new_zeros(ctx.shape).flatten(0, 1).index_copy_(0, layout.places, own)
        starts = [torch.empty_like(part).index_copy_(0, layout.order, part) for part in grad_state]
        return (
            None,
            None,
            None if inputs is None else inputs.view(ctx.shape),
            entering.t().mm(read),
            carried.t().mm(hidden) if ctx.parts > 1 else _candidate_last(carried.t().mm(hidden)),
            bias,
            recurrent_bias,
            *starts,
        )


def gru_step(
    entering: Float[Tensor, "batch three_dim"],
    carried: Float[Tensor, "batch three_dim"],
    state: Float[Tensor, "batch hidden_dim"],
) -> Float[Tensor, "batch hidden_dim"]:
    """A GRU's single step from its two products, with their biases. Can be differentiated once.

    Tensors of several types, or whose numbers do not lie in memory, go through torch's own operations.

    Args:
        entering: what the inputs give to the gates: reset, update, candidate.
        carried: what the state gives to them.
        state: before the step.
    """
    kind = state.dtype
    for one in (entering, carried, state):
        if one.dtype is not kind or one.is_neg() or not (type(one) is Tensor or is_plain_tensor(one)):
            return _step(entering, carried, state)
    after: Tensor = _Step.apply(entering, carried, state)
    return after


def _step(entering: Tensor, carried: Tensor, state: Tensor) -> Tensor:
    reset, update, own = entering.chunk(3, -1)
    given_reset, given_update, given = carried.chunk(3, -1)
    candidate = torch.tanh(own + torch.sigmoid(reset + given_reset) * given)
    return candidate + torch.sigmoid(update + given_update) * (state - candidate)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entering: Tensor, carried: Tensor, state: Tensor) -> Tensor:
        entering, given, before = entering.contiguous(), carried.contiguous(), state.contiguous()
        own, kept, after = torch.empty_like(entering), torch.empty_like(before), torch.empty_like(before)
        gates.gru(entering, given, None, before, own, kept, after)
        ctx.save_for_backward(own, kept, before, after)
        return after

    @staticmethod
    @unbatched
    @once_differentiable("a GRU's step in a loop; torch.nn.GRUCell has them")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own, kept, before, _ = ctx.saved_tensors
        (upstream,) = materialized("a GRU's step in a loop", upstream)
        hidden = upstream.clone(memory_format=torch.contiguous_format)
        entering, carried = torch.empty_like(own), torch.empty_like(own)
        gates.gru_backward(own, kept, before, hidden, entering, carried)
        return entering, carried, hidden


def _last(layout: Layout, first: list[Tensor], saved: tuple[Tensor, ...]) -> list[Tensor]:
    """The state of each row after its last step, in the rows' own order."""
    ends = []
    for start, each in zip(first, saved, strict=False):
        end = start.clone()
        end[: len(layout.last)] = each.index_select(0, layout.last)
        ends.append(torch.empty_like(end).index_copy_(0, layout.order, end))
    return ends


def _gru(
    layout: Layout, sums: Tensor, first: list[Tensor], recurrent: Tensor, bias: Tensor, recurrent_bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, the gates (reset, update, candidate) and what the state gave to the candidate, of all steps."""
    dim = len(recurrent)
    outputs, kept = (sums.new_empty(len(sums), dim) for _ in range(2))
    given = sums.new_empty(layout.sizes[0], 3 * dim)
    gates_bias = bias[: 2 * dim] + recurrent_bias[: 2 * dim]
    biases = torch.cat([gates_bias, bias[2 * dim :], recurrent_bias[2 * dim :]])
    state = first[0]
    for own, back, out in zip(*(each.split(layout.sizes) for each in (sums, kept, outputs)), strict=True):
        before = state[: len(own)]
        came = torch.mm(before, recurrent, out=given[: len(own)])
        gates.gru(own, came, biases, before, own, back, out)
        state = out
    return outputs, sums, kept


def _gru_backwards(
    layout: Layout,
    grad_outputs: Tensor,
    grad_state: list[Tensor],
    first: list[Tensor],
    saved: list[Tensor],
    recurrent: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients to the gates' inputs, to what the state gave, and to both biases; `grad_state` becomes the first's.

    Those of reset and update are the same for both: they lie once, between the candidate's two. So in what the state
    gave the candidate comes first.
    """
    outputs, own, kept = saved
    dim = outputs.shape[1]
    whole = in_large_pages(own.new_empty(len(own), 4 * dim))
    reordered = torch.cat([recurrent[2 * dim :], recurrent[: 2 * dim]])
    entering, candidate, carried = whole[:, dim:], whole[:, :dim], whole[:, : 3 * dim]
    each = [part.split(layout.sizes) for part in (own, kept, grad_outputs, entering, candidate, carried)]
    states = (first[0], *outputs.split(layout.sizes))
    for state, gate, back, came, *into in reversed(list(zip(states[:-1], *each, strict=True))):
        hidden = grad_state[0][: len(gate)].add_(came)
        gates.gru_backward(gate, back, state[: len(gate)], hidden, into[0], into[1])
        hidden.addmm_(into[2], reordered)
    total = whole.sum(0)
    return entering, carried, total[dim:], _candidate_last(total[: 3 * dim])


def _candidate_last(gradient: Tensor) -> Tensor:
    """In torch's order what has the candidate's part first."""
    dim = len(gradient) // 3
    return torch.cat([gradient[dim:], gradient[:dim]])


def _lstm(
    layout: Layout, sums: Tensor, first: list[Tensor], recurrent: Tensor, bias: Tensor, recurrent_bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, memories and the gates (input, forget, candidate, output) of all steps."""
    outputs, memories = (sums.new_empty(len(sums), len(recurrent)) for _ in range(2))
    sums.add_(bias + recurrent_bias)
    for here, before in layout.steps():
        state, memory = (outputs[before], memories[before]) if here.start else (part[before] for part in first)
        gates.lstm(sums[here].addmm_(state, recurrent), memory, memories[here], outputs[here])
    return outputs, memories, sums


def _lstm_backwards(
    layout: Layout,
    grad_outputs: Tensor,
    grad_state: list[Tensor],
    first: list[Tensor],
    saved: list[Tensor],
    recurrent: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients to the gates' inputs, from the input and from the state alike, and to both biases.

    `grad_state` becomes the first's.
    """
    outputs, memories, own = saved
    gradients = torch.empty_like(own)
    for here, before in reversed(list(layout.steps())):
        memory = memories[before] if here.start else first[1][before]
        rows = len(memory)
        hidden = grad_state[0][:rows].add_(grad_outputs[here])
        gates.lstm_backward(own[here], memory, memories[here], hidden, grad_state[1][:rows], gradients[here])
        torch.mm(gradients[here], recurrent, out=hidden)
    total = gradients.sum(0)
    return gradients, gradients, total, total.clone()
