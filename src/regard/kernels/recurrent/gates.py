"""What a step of a GRU or an LSTM computes beside its matrix products: in one pass, where a compiler built the loop.

torch's calls go over a step's numbers a dozen times; where `gates.cpp` could not be built, these are what is done. All
tensors are on a CPU, of one type and, where nothing else is said, contiguous; a row is one item of the batch.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.native import compiler

_KINDS = {torch.float32: "float32", torch.float64: "float64"}


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
    if loop := _loop("gru", sums):
        loop(given, bias, state, gates, kept, out)
        return
    dim = state.shape[1]
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
    dim = state.shape[1]
    own, others = carried[:, -dim:], carried if carried.shape[1] > dim else None
    if loop := _loop("gru_backward", gates):
        loop(kept, state, hidden, entering, own, others, entering.stride(0), carried.stride(0))
        return
    r, z, n = gates.chunk(3, -1)
    into = entering.chunk(3, -1)
    torch.mul(hidden, n.square().neg_().add_(1), out=into[2]).mul_(1 - z)
    torch.mul(hidden, state - n, out=into[1]).mul_(z).mul_(1 - z)
    torch.mul(into[2], kept, out=into[0]).mul_(r).mul_(1 - r)
    torch.mul(into[2], r, out=own)
    if others is not None:
        others[:, : 2 * dim] = entering[:, : 2 * dim]
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
    if loop := _loop("lstm", gates):
        loop(memory, kept, out)
        return
    dim = memory.shape[1]
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
    if loop := _loop("lstm_backward", gates):
        loop(memory, kept, hidden, slope, into)
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


def _loop(name: str, sums: Tensor) -> Callable[..., None] | None:
    """The native loop over the rows of `sums`, which waits for the other tensors; None where there is none."""
    library, kind = compiler.library("recurrent/gates"), _KINDS.get(sums.dtype)
    if library is None or kind is None:
        return None
    loop = _typed(library, f"{name}_{kind}")
    rows, width = sums.shape[0], sums.shape[1] // (4 if name.startswith("lstm") else 3)

    def run(*others: Tensor | int | None) -> None:
        addresses = (one.data_ptr() if isinstance(one, Tensor) else one for one in others)
        loop(rows, width, torch.get_num_threads(), sums.data_ptr(), *addresses)

    return run


@functools.cache
def _typed(library: ctypes.CDLL, name: str) -> Any:
    loop = getattr(library, name)
    pointers, steps = {"gru": (7, 0), "gru_backward": (7, 2), "lstm": (4, 0), "lstm_backward": (6, 0)}[
        name.rpartition("_")[0]
    ]
    whole = ctypes.c_int64
    loop.argtypes, loop.restype = (*(whole,) * 3, *(ctypes.c_void_p,) * pointers, *(whole,) * steps), None
    return loop
