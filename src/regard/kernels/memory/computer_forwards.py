"""The forward pass of `computer.py`: the steps of a differentiable neural computer, in numpy's calls."""

from typing import Any, NamedTuple

import numpy as np

from regard.kernels.memory.arrays import Array, inverse_length, softmax
from regard.kernels.memory.cell import Cell, CellStep


class Layout(NamedTuple):
    """The sizes of a computer, and where its parts lie in ξ, what the controller says.

    Side by side by what brings them into range: read keys, write key and write vector (as they are), erase vector
    and the gates of freeing, allocating and writing (sigmoid), strengths of reading and writing (oneplus), read modes
    (softmax).
    """

    reads: int
    slots: int
    slot_dim: int
    frees: bool

    @property
    def plain(self) -> list[int]:
        """Widths of read keys, write key, write vector."""
        return [self.reads * self.slot_dim, self.slot_dim, self.slot_dim]

    @property
    def gates(self) -> list[int]:
        """Widths of erase vector, free gates, allocation gate, write gate."""
        return [self.slot_dim, self.reads, 1, 1]

    @property
    def strengths(self) -> list[int]:
        """Read strengths, write strength."""
        return [self.reads, 1]

    @property
    def widths(self) -> list[int]:
        """Widths of the four groups."""
        return [sum(self.plain), sum(self.gates), sum(self.strengths), 3 * self.reads]


class Interface(NamedTuple):
    """ξ of one step, each part in its range, the same memory seen whole where a group is."""

    read_keys: Array
    write_key: Array
    add: Array
    shares: Array
    erase: Array
    free: Array
    allocation_gate: Array
    write_gate: Array
    excess: Array
    read_strengths: Array
    write_strength: Array
    modes: Array


class ContentWeights(NamedTuple):
    """Content weights of some heads, and what the backward pass needs of them."""

    key_length: Array
    likeness: Array
    content: Array


class Memory(NamedTuple):
    """The memory and its bookkeeping after a step."""

    slots: Array
    length: Array
    usage: Array
    link: Array
    precedence: Array
    write: Array
    read: Array


class Trace(NamedTuple):
    """What the backward pass needs of one step of the memory."""

    kept: Array
    joined: Array
    order: Array
    rising: Array
    before: Array
    allocated: Array
    write_content: ContentWeights
    stay: Array
    forward: Array
    backward: Array
    read_content: ContentWeights


class Step(NamedTuple):
    """What the backward pass needs of one step."""

    cell: CellStep
    interface: Interface
    trace: Trace
    after: Memory


class Forwards:
    """A batch of sequences, and what their backward pass will need."""

    def __init__(self, layout: Layout, recurrent: Array, weight: Array, bias: Array) -> None:
        self.layout, self.cell, self.weight, self.bias = layout, Cell(recurrent), weight, bias
        self.out = np.ascontiguousarray(weight.T)
        self.edges = np.cumsum(layout.widths).tolist()
        self.other = 1 - np.eye(layout.slots, dtype=recurrent.dtype)
        self.steps: list[Step] = []

    def forwards(self, projected: Array, keep: bool) -> tuple[Array, Array, Array, Array]:
        """All steps.

        Args:
            projected: the inputs' part of the gates, `(time, batch, 4 width)`.
            keep: whether the backward pass will follow.

        Returns:
            Hidden states, what was read, read weights and write weights, each `(time, batch, …)`.
        """
        layout, width, kind = self.layout, self.cell.width, projected.dtype
        time, batch = projected.shape[:2]
        projected = projected * self.cell.scale
        hidden = np.zeros((time + 1, batch, width), kind)
        contexts = np.zeros((time + 1, batch, layout.reads * layout.slot_dim), kind)
        read_weights = np.empty((time, batch, layout.reads, layout.slots), kind)
        write_weights = np.empty((time, batch, layout.slots), kind)
        cell = np.zeros((batch, width), kind)
        self.first = memory = self.empty(batch, kind)
        for now in range(time):
            entered = np.concatenate((contexts[now], hidden[now]), 1)
            cell, cell_step = self.cell.forwards(entered, projected[now], cell, hidden[now + 1])
            interface = self.interface(hidden[now + 1])
            memory, trace = self.update(interface, memory, read_weights[now], write_weights[now])
            np.matmul(memory.read, memory.slots, contexts[now + 1].reshape(batch, layout.reads, -1))
            if keep:
                self.steps.append(Step(cell_step, interface, trace, memory))
        return hidden[1:], contexts[1:], read_weights, write_weights

    def empty(self, batch: int, kind: Any) -> Memory:
        """Nothing written yet."""
        slots, reads = self.layout.slots, self.layout.reads
        flat = np.zeros((batch, slots), kind)
        memory = np.zeros((batch, slots, self.layout.slot_dim), kind)
        link = np.zeros((batch, slots, slots), kind)
        return Memory(memory, flat, flat, link, flat, flat, np.zeros((batch, reads, slots), kind))

    def interface(self, hidden: Array) -> Interface:
        """What the controller says, each part brought into its range."""
        layout = self.layout
        reads, width, batch = layout.reads, layout.slot_dim, len(hidden)
        said = hidden @ self.out
        said += self.bias
        plain, gates, strengths, modes = (
            said[:, at:end] for at, end in zip([0, *self.edges], self.edges, strict=False)
        )
        shares = np.tanh(0.5 * gates)
        shares *= 0.5
        shares += 0.5
        free = shares[:, width : width + reads]
        excess = np.logaddexp(0, strengths)
        strength = 1 + excess
        return Interface(
            read_keys=plain[:, : reads * width].reshape(batch, reads, width),
            write_key=plain[:, None, reads * width : -width],
            add=plain[:, -width:],
            shares=shares,
            erase=shares[:, :width],
            free=free if layout.frees else np.zeros_like(free),
            allocation_gate=shares[:, -2:-1],
            write_gate=shares[:, -1:],
            excess=excess,
            read_strengths=strength[:, :-1, None],
            write_strength=strength[:, -1:, None],
            modes=softmax(modes.reshape(batch, reads, 3)),
        )

    def update(self, interface: Interface, old: Memory, read: Array, write: Array) -> tuple[Memory, Trace]:
        """One step of the memory; `read` and `write` are filled with the weights."""
        kept = 1 - interface.free[:, :, None] * old.read
        joined = old.usage + old.write
        joined -= old.usage * old.write
        usage = joined.copy()
        for head in range(self.layout.reads):
            usage *= kept[:, head]

        order = usage.argsort(1, kind="stable")
        rising = np.take_along_axis(usage, order, 1)
        before = np.empty_like(rising)
        before[:, 0] = 1
        np.multiply.accumulate(rising[:, :-1], 1, out=before[:, 1:])
        allocated = np.empty_like(rising)
        np.put_along_axis(allocated, order, (1 - rising) * before, 1)

        write_content = self.content_weights(interface.write_key, interface.write_strength, old)
        content = write_content.content[:, 0]
        np.subtract(allocated, content, write)
        write *= interface.allocation_gate
        write += content
        write *= interface.write_gate
        stay = 1 - write[:, :, None] * interface.erase[:, None]
        slots = old.slots * stay
        slots += write[:, :, None] * interface.add[:, None]

        link = 1 - write[:, :, None] - write[:, None]
        link *= old.link
        link += write[:, :, None] * old.precedence[:, None]
        link *= self.other
        precedence = (1 - np.add.reduce(write, 1, keepdims=True)) * old.precedence
        precedence += write
        forward, backward = old.read @ link.swapaxes(1, 2), old.read @ link

        after = Memory(slots, inverse_length(slots), usage, link, precedence, write, read)
        read_content = self.content_weights(interface.read_keys, interface.read_strengths, after)
        np.multiply(interface.modes[:, :, :1], backward, read)
        read += interface.modes[:, :, 1:2] * read_content.content
        read += interface.modes[:, :, 2:] * forward
        trace = Trace(
            kept, joined, order, rising, before, allocated, write_content, stay, forward, backward, read_content
        )  # fmt: skip
        return after, trace

    def content_weights(self, keys: Array, strengths: Array, memory: Memory) -> ContentWeights:
        """softmax(β cos(k, M))."""
        key_length = inverse_length(keys)[:, :, None]
        likeness = keys @ memory.slots.swapaxes(1, 2)
        likeness *= key_length
        likeness *= memory.length[:, None]
        return ContentWeights(key_length, likeness, softmax(strengths * likeness))
