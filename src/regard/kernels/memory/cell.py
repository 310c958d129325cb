"""The LSTM that steers a memory, one layer, a step there and a step back, in numpy's calls."""

from typing import NamedTuple

import numpy as np

from regard.kernels.memory.arrays import Array


class CellStep(NamedTuple):
    """What the backward pass needs of one step.

    Attributes:
        entered: what the memory gave and the hidden state before, side by side.
        gates: σ of all gates' sums (of the candidate's, it is of no use).
        candidate: tanh of its sum.
        before: c of the step before.
        shown: tanh of c.
    """

    entered: Array
    gates: Array
    candidate: Array
    before: Array
    shown: Array


class Cell:
    """The cell over a batch; its gates stand in torch's order: input, forget, candidate, output.

    Args:
        recurrent: from what enters, `(4 width, entered)`.
    """

    def __init__(self, recurrent: Array) -> None:
        self.recurrent = recurrent
        self.width = width = recurrent.shape[0] // 4
        # σ(x) = (1 + tanh(x/2)) / 2: with these rows halved, one tanh serves both.
        self.scale = np.full(4 * width, 0.5, recurrent.dtype)
        self.scale[2 * width : 3 * width] = 1
        self.into = recurrent.T * self.scale

    def forwards(self, entered: Array, projected: Array, before: Array, hidden: Array) -> tuple[Array, CellStep]:
        """One step: c, and what the backward pass will need.

        Args:
            entered: what the memory gave and the hidden state before.
            projected: the inputs' part of the gates' sums, times `scale`.
            before: c of the step before.
            hidden: filled with h.
        """
        width = self.width
        squashed = entered @ self.into
        squashed += projected
        np.tanh(squashed, squashed)
        candidate = squashed[:, 2 * width : 3 * width]
        gates = 0.5 * squashed
        gates += 0.5
        cell = gates[:, width : 2 * width] * before
        cell += gates[:, :width] * candidate
        shown = np.tanh(cell)
        np.multiply(gates[:, 3 * width :], shown, hidden)
        return cell, CellStep(entered, gates, candidate, before, shown)

    def backwards(self, step: CellStep, hidden: Array, cell: Array, slope: Array) -> tuple[Array, Array]:
        """One step back: the gradients of c before the step, and of what entered.

        Args:
            step: what the forward pass left.
            hidden: gradient of h.
            cell: of c, from the later steps.
            slope: filled with that of the gates' sums.
        """
        width, gates = self.width, step.gates
        steep = gates - gates * gates
        np.multiply(hidden * step.shown, steep[:, 3 * width :], slope[:, 3 * width :])
        cell = cell + hidden * gates[:, 3 * width :] * (1 - step.shown * step.shown)
        np.multiply(cell * step.candidate, steep[:, :width], slope[:, :width])
        np.multiply(cell * step.before, steep[:, width : 2 * width], slope[:, width : 2 * width])
        np.multiply(cell * gates[:, :width], 1 - step.candidate * step.candidate, slope[:, 2 * width : 3 * width])
        return cell * gates[:, width : 2 * width], slope @ self.recurrent
