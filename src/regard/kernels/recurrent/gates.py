"""What a step of a GRU or an LSTM computes beside its matrix products: in one pass, where a compiler built the loop.

torch's calls go over a step's numbers a dozen times; where `gates.cpp` could not be built, these are what is done. All
tensors are on a CPU, of one type and, where nothing else is said, contiguous; a row is one item of the batch.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, THREADS, Input, Output

LIBRARY = Library("recurrent/gates", (torch.float32, torch.float64))
_SIZES = {"rows": INTEGER, "width": INTEGER, "threads": THREADS}
_STATE, _NEW_STATE = Input("rows", "width"), Output("rows", "width")

_gru = LIBRARY.loop(
    "gru",
    **_SIZES,
    sums=Input("rows", "3 * width"),
    given=Input("rows", "3 * width"),
    bias=Input("4 * width", optional=True),
    state=_STATE,
    gates=Output("rows", "3 * width"),
    kept=_NEW_STATE,
    next=_NEW_STATE,
)
_gru_backward = LIBRARY.loop(
    "gru_backward",
    **_SIZES,
    gates=Input("rows", "3 * width"),
    kept=_STATE,
    state=_STATE,
    hidden=_NEW_STATE,
    entering=Output("rows", "3 * width", strides=1),
    carried=Output("rows", "width", strides=1),
    others=Output("rows", "2 * width", strides=1, optional=True),
)
_lstm = LIBRARY.loop(
    "lstm", **_SIZES, gates=Output("rows", "4 * width"), memory=_STATE, kept=_NEW_STATE, next=_NEW_STATE
)
_lstm_backward = LIBRARY.loop(
    "lstm_backward",
    **_SIZES,
    gates=Input("rows", "4 * width"),
    memory=_STATE,
    kept=_STATE,
    hidden=_STATE,
    slope=_NEW_STATE,
    into=Output("rows", "4 * width"),
)


def gru(
    sums: Float[Tensor, "rows three_dim"],
    given: Float[Tensor, "rows three_dim"],
    bias: Float[Tensor, " four_dim"] | None,
    state: Float[Tensor, "rows dim"],
    gates: Float[Tensor, "rows three_dim"],
    kept: Float[Tensor, "rows dim"],
    out: Float[Tensor, "rows dim"],
) -> None:
    """A GRU's step, with its gates in torch's order: reset, update, candidate.

    Args:
        sums: what the inputs give to the gates.
        given: what the state gives to them.
        bias: added to the sums of reset and update, to the inputs' part of the candidate and to the state's; None where
            they have it.
        state: before the step.
        gates: filled with the gates; it may be `sums` itself.
        kept: filled with what the state gave to the candidate, for the backward pass.
        out: filled with the state after it.
    """
    rows, dim = state.shape
    if LIBRARY.serves(sums.dtype):
        _gru(rows=rows, width=dim, sums=sums, given=given, bias=bias, state=state, gates=gates, kept=kept, next=out)
        return
    both, candidate = gates[:, : 2 * dim], gates[:, 2 * dim :]
    torch.add(sums[:, : 2 * dim], given[:, : 2 * dim], out=both)
    kept.copy_(given[:, 2 * dim :])
    candidate.copy_(sums[:, 2 * dim :])
    if bias is not None:
        both.add_(bias[: 2 * dim]), candidate.add_(bias[2 * dim : 3 * dim]), kept.add_(bias[3 * dim :])
    both.sigmoid_(), candidate.addcmul_(gates[:, :dim], kept).tanh_()
    torch.lerp(candidate, state, gates[:, dim : 2 * dim], out=out)  # (1 − z) n + z h


def gru_backward(
    gates: Float[Tensor, "rows three_dim"],
    kept: Float[Tensor, "rows dim"],
    state: Float[Tensor, "rows dim"],
    hidden: Float[Tensor, "rows dim"],
    entering: Float[Tensor, "rows three_dim"],
    carried: Float[Tensor, "rows three_dim"] | Float[Tensor, "rows dim"],
) -> None:
    """The backward pass through `gru`.

    Args:
        gates, kept, state: as `gru` left them.
        hidden: gradient of the state after the step; becomes that of the one before it, but for what comes by `given`.
        entering: filled with that of `sums`; its rows, like those of `carried`, may lie apart.
        carried: filled with that of `given`; where it is as wide as a state, with the candidate's alone, for the gates'
            are those of `sums`.
    """
    rows, dim = state.shape
    own, others = carried[:, -dim:], carried[:, : 2 * dim] if carried.shape[1] > dim else None
    if LIBRARY.serves(gates.dtype):
        _gru_backward(
            rows=rows,
            width=dim,
            gates=gates,
            kept=kept,
            state=state,
            hidden=hidden,
            entering=entering,
            carried=own,
            others=others,
        )
        return
    r, z, n = gates.chunk(3, -1)
    into = entering.chunk(3, -1)
    torch.mul(hidden, n.square().neg_().add_(1), out=into[2]).mul_(1 - z)
    torch.mul(hidden, state - n, out=into[1]).mul_(z).mul_(1 - z)
    torch.mul(into[2], kept, out=into[0]).mul_(r).mul_(1 - r)
    torch.mul(into[2], r, out=own)
    if others is not None:
        others.copy_(entering[:, : 2 * dim])
    hidden.mul_(z)


def lstm(
    gates: Float[Tensor, "rows four_dim"],
    memory: Float[Tensor, "rows dim"],
    kept: Float[Tensor, "rows dim"],
    out: Float[Tensor, "rows dim"],
) -> None:
    """An LSTM's step, with its gates in torch's order: input, forget, candidate, output.

    Args:
        gates: the gates' sums, in whose place the gates are put.
        memory: before the step.
        kept: filled with the memory after it.
        out: with the state after it.
    """
    rows, dim = memory.shape
    if LIBRARY.serves(gates.dtype):
        _lstm(rows=rows, width=dim, gates=gates, memory=memory, kept=kept, next=out)
        return
    gates[:, : 2 * dim].sigmoid_(), gates[:, 2 * dim : 3 * dim].tanh_(), gates[:, 3 * dim :].sigmoid_()
    entering, forgetting, candidate, leaving = gates.chunk(4, -1)
    torch.mul(forgetting, memory, out=kept).addcmul_(entering, candidate)
    torch.tanh(kept, out=out).mul_(leaving)


def lstm_backward(
    gates: Float[Tensor, "rows four_dim"],
    memory: Float[Tensor, "rows dim"],
    kept: Float[Tensor, "rows dim"],
    hidden: Float[Tensor, "rows dim"],
    slope: Float[Tensor, "rows dim"],
    into: Float[Tensor, "rows four_dim"],
) -> None:
    """The backward pass through `lstm`.

    Args:
        gates, memory, kept: as `lstm` left them.
        hidden: gradient of the state after the step.
        slope: of the memory after it, from what came later; becomes that of the memory before.
        into: filled with that of the sums.
    """
    rows, dim = memory.shape
    if LIBRARY.serves(gates.dtype):
        _lstm_backward(
            rows=rows, width=dim, gates=gates, memory=memory, kept=kept, hidden=hidden, slope=slope, into=into
        )
        return
    entering, forgetting, candidate, leaving = gates.chunk(4, -1)
    to = into.chunk(4, -1)
    shown = torch.tanh(kept)
    torch.mul(hidden, shown, out=to[3]).mul_(leaving).mul_(1 - leaving)
    slope.add_(shown.square_().neg_().add_(1).mul_(hidden).mul_(leaving))
    torch.mul(slope, candidate, out=to[0]).mul_(entering).mul_(1 - entering)
    torch.mul(slope, memory, out=to[1]).mul_(forgetting).mul_(1 - forgetting)
    torch.mul(slope, entering, out=to[2]).mul_(candidate.square().neg_().add_(1))
    slope.mul_(forgetting)
