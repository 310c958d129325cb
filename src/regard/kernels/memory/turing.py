"""A Neural Turing machine over a whole sequence, its backward hand-written: the numbers of its plain steps, faster.

Training one reads short sequences one after the other, and the time goes into the calls of small operations, not into
arithmetic. So a step here is numpy's calls, which cost a third of torch's, on the same memory, without a graph; and the
gradients of the weights are one matrix product over all steps. `models/memory/ntm.py` has the same step made of
`attend` and its parts, with the equations of the paper beside the lines.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.once_differentiable import once_differentiable
from regard.kernels.autograd.plain import materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.memory.arrays import Array, inverse_length, softmax, softmax_backward
from regard.kernels.memory.cell import Cell, CellStep


class Layout(NamedTuple):
    """The sizes of a machine, and where each head's orders lie in what the controller says.

    Side by side, so that one call serves all that share a squashing function: keys and what is added (tanh), what is
    erased and the gates (sigmoid), strengths and exponents (softplus), shifts (softmax).
    """

    reads: int
    writes: int
    slots: int
    slot_dim: int
    reach: int

    @property
    def heads(self) -> int:
        """All of them: those that read, then those that write."""
        return self.reads + self.writes

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """Widths of the four groups of orders."""
        heads, writes, dim = self.heads, self.writes, self.slot_dim
        return (heads + writes) * dim, writes * dim + heads, 2 * heads, heads * (2 * self.reach + 1)


def machine(
    layout: Layout,
    projected: Float[Tensor, "time batch gates"],
    recurrent: Float[Tensor, "gates reads_and_hidden"],
    weight: Float[Tensor, "orders hidden"],
    bias: Float[Tensor, " orders"],
    memory: Float[Tensor, "batch slots slot_dim"],
    weights: Float[Tensor, "batch heads slots"],
) -> tuple[
    Float[Tensor, "time batch hidden"], Float[Tensor, "time batch reads_dim"], Float[Tensor, "time batch heads slots"]
]:
    """All steps of a machine with an LSTM of one layer, from a state of zeros. Can be differentiated once.

    Args:
        layout: its sizes.
        projected: the inputs' part of the LSTM's gates with all biases, in torch's order of the gates.
        recurrent: the part of what was read at the step before, and of the hidden state.
        weight, bias: from the hidden state to the orders.
        memory: before the first step; no gradient is made for it.
        weights: likewise, of each head.

    Returns:
        The controller's hidden state, what was read, and where each head was, at every step.
    """
    keep = torch.is_grad_enabled()
    hidden, reads, read_weights = _Machine.apply(layout, keep, projected, recurrent, weight, bias, memory, weights)
    return hidden, reads, read_weights


class _HeadParameters(NamedTuple):
    """The head parameters that the controller emits at one step, squashed."""

    key: Array
    add: Array
    erase: Array
    gate: Array
    strength: Array
    exponent: Array
    shift: Array
    free: Array
    shares: Array
    positive: Array


class _Step(NamedTuple):
    """What the backward pass needs of one step."""

    cell: CellStep
    head_parameters: _HeadParameters
    memory: Array
    key_length: Array
    slot_length: Array
    likeness: Array
    content: Array
    before: Array
    around: Array
    shifted: Array
    logs: Array
    weights: Array
    kept: list[Array]


class _Machine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: Layout, keep: bool, *given: Tensor) -> tuple[Tensor, ...]:
        projected, recurrent, weight, bias, memory, weights = (tensor.numpy() for tensor in given)
        with np.errstate(over="ignore", invalid="ignore"):  # inf and NaN show in the loss
            run = _Run(layout, recurrent, weight, bias)
            results = run.forwards(projected, memory, weights, keep)
        ctx.run, ctx.hidden = run, results[0]
        ctx.save_for_backward(*given)  # numpy reads the same memory, and only torch knows whether it was changed since
        return tuple(map(torch.from_numpy, results))

    @staticmethod
    @unbatched
    @once_differentiable("a machine over a whole sequence; a step at a time has them")
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018  raises where a weight was changed in place
        upstream = materialized("a machine over a whole sequence", *upstream)
        with np.errstate(over="ignore", invalid="ignore"):
            gradients = ctx.run.backwards(ctx.hidden, *(tensor.numpy() for tensor in upstream))
        return None, None, *map(torch.from_numpy, gradients), None, None


class _Run:
    """One sequence forward and backward."""

    def __init__(self, layout: Layout, recurrent: Array, weight: Array, bias: Array) -> None:
        self.layout, self.cell, self.weight = layout, Cell(recurrent), weight
        free, shares, positive, _ = layout.widths
        self.squashed, self.positive = free + shares, free + shares + positive
        # σ by tanh, as in `Cell`.
        parameter_scale = np.ones(len(bias), bias.dtype)
        parameter_scale[free : free + shares] = 0.5
        self.out, self.bias = weight.T * parameter_scale, bias * parameter_scale
        reach = layout.reach
        self.circle = np.arange(-reach, layout.slots + reach) % layout.slots
        self.steps: list[_Step] = []

    def head_parameters(self, hidden: Array) -> _HeadParameters:
        """What the controller says, squashed: k, a in (−1, 1); e, g in (0, 1); β ≥ 0; γ ≥ 1; Σ s = 1."""
        heads, writes, dim = self.layout.heads, self.layout.writes, self.layout.slot_dim
        batch, edge = len(hidden), self.layout.widths[0]
        said = hidden @ self.out
        said += self.bias
        squashed = np.tanh(said[:, : self.squashed])
        free, shares = squashed[:, :edge], squashed[:, edge:]
        shares *= 0.5
        shares += 0.5
        vectors = free.reshape(batch, heads + writes, dim)
        positive = np.logaddexp(0, said[:, self.squashed : self.positive])
        return _HeadParameters(
            key=vectors[:, :heads],
            add=vectors[:, heads:],
            erase=shares[:, : writes * dim].reshape(batch, writes, dim),
            gate=shares[:, writes * dim :, None],
            strength=positive[:, :heads, None],
            exponent=1 + positive[:, heads:, None],
            shift=softmax(said[:, self.positive :].reshape(batch, heads, -1)),
            free=free,
            shares=shares,
            positive=positive,
        )

    def forwards(self, projected: Array, memory: Array, weights: Array, keep: bool) -> tuple[Array, Array, Array]:
        layout, width = self.layout, self.cell.width
        tiny, kind = np.finfo(projected.dtype).tiny, projected.dtype
        time, batch = projected.shape[:2]
        projected = projected * self.cell.scale
        hidden = np.empty((time + 1, batch, width), kind)
        reads = np.empty((time + 1, batch, layout.reads * layout.slot_dim), kind)
        read_weights = np.empty((time, *weights.shape), kind)
        hidden[0], reads[0] = 0, 0
        cell = np.zeros((batch, width), kind)
        for now in range(time):
            entered = np.concatenate((reads[now], hidden[now]), 1)
            cell, cell_step = self.cell.forwards(entered, projected[now], cell, hidden[now + 1])
            parameters = self.head_parameters(hidden[now + 1])
            key_length, slot_length = inverse_length(parameters.key), inverse_length(memory)
            likeness = parameters.key @ memory.swapaxes(1, 2)
            likeness *= key_length[:, :, None]
            likeness *= slot_length[:, None]
            content = softmax(parameters.strength * likeness)
            gated = content - weights
            gated *= parameters.gate
            gated += weights
            around = gated.take(self.circle, 2)
            shifted = self.moved(around, parameters.shift[..., ::-1])
            np.maximum(shifted, tiny, out=shifted)
            logs = np.log(shifted)
            before, weights = weights, read_weights[now]
            weights[:] = softmax(parameters.exponent * logs)
            np.matmul(weights[:, : layout.reads], memory, reads[now + 1].reshape(batch, layout.reads, -1))
            writing = weights[:, layout.reads :]
            kept = [1 - writing[:, head, :, None] * parameters.erase[:, head, None] for head in range(layout.writes)]
            if keep:
                self.steps.append(
                    _Step(
                        cell_step,
                        parameters,
                        memory,
                        key_length,
                        slot_length,
                        likeness,
                        content,
                        before,
                        around,
                        shifted,
                        logs,
                        weights,
                        kept,
                    )  # fmt: skip
                )
            written = writing.swapaxes(1, 2) @ parameters.add
            for factor in kept:
                memory = memory * factor
            memory += written
        return hidden[1:], reads[1:], read_weights

    def backwards(
        self, hidden: Array, to_hidden: Array, to_reads: Array, to_weights: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Gradients of the projected inputs, of the recurrent weight, and of the orders' weight and bias."""
        width, read = self.cell.width, to_reads.shape[-1]
        batch = to_hidden.shape[1]
        gates = np.empty((*to_hidden.shape[:2], 4 * width), to_hidden.dtype)
        said = np.empty((*to_hidden.shape[:2], self.weight.shape[0]), to_hidden.dtype)
        last = self.steps[-1]
        memory, weights = np.zeros_like(last.memory), np.zeros_like(last.weights)
        cell, entered = np.zeros_like(last.cell.shown), np.zeros_like(last.cell.entered)
        for now in range(len(self.steps) - 1, -1, -1):
            step = self.steps[now]
            reads = (to_reads[now] + entered[:, :read]).reshape(batch, self.layout.reads, -1)
            memory, weights = self.heads_backward(step, reads, memory, weights + to_weights[now], said[now])
            from_orders = said[now] @ self.weight
            from_orders += to_hidden[now]
            from_orders += entered[:, read:]
            cell, entered = self.cell.backwards(step.cell, from_orders, cell, gates[now])
        whole = np.concatenate([step.cell.entered for step in self.steps])
        flat_gates, flat_said = gates.reshape(-1, 4 * width), said.reshape(-1, said.shape[-1])
        return gates, flat_gates.T @ whole, flat_said.T @ hidden.reshape(-1, width), flat_said.sum(0)

    def heads_backward(
        self, step: _Step, reads: Array, memory: Array, weights: Array, said: Array
    ) -> tuple[Array, Array]:
        """One step of all heads, backwards.

        Args:
            step: what the forward pass left.
            reads: gradients of what was read.
            memory: of the memory after the step.
            weights: of the weights; changed in place.
            said: filled with those of what the controller said.

        Returns:
            Gradients of the memory before the step, and of the weights before it.
        """
        layout, parameters = self.layout, step.head_parameters
        batch, heads, count = len(said), layout.heads, layout.reads
        reading, writing = step.weights[:, :count], step.weights[:, count:]

        # r = w M, and M' = M ∘ Π(1 − w eᵀ) + Σ w aᵀ
        add = writing @ memory
        weights[:, count:] += parameters.add @ memory.swapaxes(1, 2)
        weights[:, :count] += reads @ step.memory.swapaxes(1, 2)
        entering = memory * step.memory
        erase = np.empty_like(parameters.erase)
        for head in range(layout.writes):
            one = entering
            for other, factor in enumerate(step.kept):
                if other != head:
                    one = one * factor
            np.matmul(writing[:, head, None], one, erase[:, head, None])
            weights[:, count + head, None] -= parameters.erase[:, head, None] @ one.swapaxes(1, 2)
        for factor in step.kept:
            memory = memory * factor
        memory += reading.swapaxes(1, 2) @ reads

        # w = softmax(γ log w̃), w̃(i) = Σ w_g(j) s(i − j), w_g = g c + (1 − g) w'
        logs = softmax_backward(weights, step.weights)
        exponent = np.add.reduce(logs * step.logs, 2)
        logs *= parameters.exponent
        logs /= step.shifted
        shift = np.stack(
            [
                np.add.reduce(logs * step.around[..., at : at + layout.slots], 2)
                for at in range(parameters.shift.shape[2])
            ],
            2,
        )[..., ::-1]
        gated = self.moved(logs.take(self.circle, 2), parameters.shift)
        gate = np.add.reduce(gated * (step.content - step.before), 2)
        content = gated * parameters.gate
        earlier = gated - content

        # c = softmax(β q), q = k·m / |k||m|
        scores = softmax_backward(content, step.content)
        strength = np.add.reduce(scores * step.likeness, 2)
        scores *= parameters.strength
        turned = scores * step.likeness
        scores *= step.key_length[:, :, None]
        scores *= step.slot_length[:, None]
        key = scores @ step.memory
        key -= parameters.key * (np.add.reduce(turned, 2) * step.key_length * step.key_length)[..., None]
        memory += scores.swapaxes(1, 2) @ parameters.key
        memory -= step.memory * (np.add.reduce(turned, 1) * step.slot_length * step.slot_length)[..., None]

        edge, dim = layout.widths[0], layout.slot_dim
        said[:, : heads * dim], said[:, heads * dim : edge] = key.reshape(batch, -1), add.reshape(batch, -1)
        said[:, :edge] *= 1 - parameters.free * parameters.free
        shares = said[:, edge : self.squashed]
        np.negative(erase.reshape(batch, -1), shares[:, :-heads])
        shares[:, -heads:] = gate
        shares *= parameters.shares - parameters.shares * parameters.shares
        said[:, self.squashed : self.squashed + heads], said[:, self.squashed + heads : self.positive] = (
            strength,
            exponent,
        )
        said[:, self.squashed : self.positive] *= -np.expm1(-parameters.positive)
        said[:, self.positive :] = softmax_backward(shift, parameters.shift).reshape(batch, -1)
        return memory, earlier

    def moved(self, around: Array, shares: Array) -> Array:
        """`Σ_n shares(n) around(i + n)`: the weights as far around as the heads reach, moved and mixed."""
        slots = self.layout.slots
        total = around[..., :slots] * shares[..., :1]
        for at in range(1, shares.shape[2]):
            total += around[..., at : at + slots] * shares[..., at : at + 1]
        return total
