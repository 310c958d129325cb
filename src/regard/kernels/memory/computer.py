"""A differentiable neural computer over whole sequences, its backward hand-written: its plain steps' numbers, faster.

As in `turing.py`: small operations cost calls, not arithmetic, so a step is numpy's calls on torch's memory without a
graph, and the gradients of the weights are one matrix product over all steps. `models/memory/dnc.py` has the same step
made of `attend` and the functions of `layers/dynamic_memory.py`, with the equations of the paper beside the lines.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.once_differentiable import once_differentiable
from regard.kernels.autograd.plain import materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.memory.computer_backwards import Backwards
from regard.kernels.memory.computer_forwards import Forwards, Layout

__all__ = ["Layout", "computer"]


def computer(
    layout: Layout,
    projected: Float[Tensor, "time batch gates"],
    recurrent: Float[Tensor, "gates contexts_and_hidden"],
    weight: Float[Tensor, "parts hidden"],
    bias: Float[Tensor, " parts"],
) -> tuple[
    Float[Tensor, "time batch hidden"],
    Float[Tensor, "time batch contexts"],
    Float[Tensor, "time batch reads slots"],
    Float[Tensor, "time batch slots"],
]:
    """All steps of a computer with an LSTM of one layer, from a state of zeros. Can be differentiated once.

    Args:
        layout: its sizes.
        projected: the inputs' part of the LSTM's gates with all biases, in torch's order of the gates.
        recurrent: the part of what was read at the step before, and of the hidden state.
        weight, bias: from the hidden state to ξ.

    Returns:
        The controller's hidden state, what was read, where the read heads were, and where was written, at every step.
    """
    hidden, contexts, read_weights, write_weights = _Computer.apply(
        layout, torch.is_grad_enabled(), projected, recurrent, weight, bias
    )
    return hidden, contexts, read_weights, write_weights


class _Computer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: Layout, keep: bool, *given: Tensor) -> tuple[Tensor, ...]:
        projected, *weights = (tensor.numpy() for tensor in given)
        with np.errstate(all="ignore"):  # inf and NaN show in the loss
            run = Forwards(layout, *weights)
            results = run.forwards(projected, keep)
        ctx.run, ctx.hidden = run, results[0]
        ctx.save_for_backward(*given)  # numpy reads the same memory, and only torch knows whether it was changed since
        return tuple(map(torch.from_numpy, results))

    @staticmethod
    @unbatched
    @once_differentiable("a computer over a whole sequence; a step at a time has them")
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018  raises where a weight was changed in place
        upstream = materialized("a computer over a whole sequence", *upstream)
        with np.errstate(all="ignore"):
            gradients = Backwards(ctx.run).gradients(ctx.hidden, *(tensor.numpy() for tensor in upstream))
        return None, None, *map(torch.from_numpy, gradients)
