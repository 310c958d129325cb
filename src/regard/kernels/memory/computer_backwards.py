"""The backward pass of `computer.py`: gradients of a differentiable neural computer, last step first."""

from typing import NamedTuple

import numpy as np

from regard.kernels.memory.arrays import Array, softmax_backward
from regard.kernels.memory.computer_forwards import ContentWeights, Forwards, Interface, Memory, Step, Trace


class Gradients(NamedTuple):
    """Gradients of the memory and its bookkeeping."""

    slots: Array
    usage: Array
    link: Array
    precedence: Array
    write: Array
    read: Array


class Backwards:
    """From the gradients of what a run gave to those of what it was given.

    Args:
        run: it, run forwards while its steps were kept.
    """

    def __init__(self, run: Forwards) -> None:
        self.run, self.layout = run, run.layout

    def gradients(
        self, hidden: Array, to_hidden: Array, to_contexts: Array, to_read_weights: Array, to_wrote: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Gradients of the projected inputs, of the recurrent weight, and of ξ's weight and bias."""
        width, read = self.run.cell.width, to_contexts.shape[-1]
        time, batch = to_hidden.shape[:2]
        gates = np.empty((time, batch, 4 * width), to_hidden.dtype)
        said = np.empty((time, batch, self.run.edges[-1]), to_hidden.dtype)
        gradients = Gradients(*(np.zeros_like(part) for part in (self.run.first[0], *self.run.first[2:])))
        cell, entered = np.zeros((batch, width), said.dtype), np.zeros((batch, read + width), said.dtype)
        for now in range(time - 1, -1, -1):
            step = self.run.steps[now]
            old = self.run.steps[now - 1].after if now else self.run.first
            contexts = (to_contexts[now] + entered[:, :read]).reshape(batch, self.layout.reads, -1)
            gradients = gradients._replace(
                write=gradients.write + to_wrote[now], read=gradients.read + to_read_weights[now]
            )
            gradients = self.update_backward(step, old, gradients, contexts, said[now])
            from_interface = said[now] @ self.run.weight
            from_interface += to_hidden[now]
            from_interface += entered[:, read:]
            cell, entered = self.run.cell.backwards(step.cell, from_interface, cell, gates[now])
        whole = np.concatenate([step.cell.entered for step in self.run.steps])
        flat_gates, flat_said = gates.reshape(-1, 4 * width), said.reshape(-1, said.shape[-1])
        return gates, flat_gates.T @ whole, flat_said.T @ hidden.reshape(-1, width), flat_said.sum(0)

    def update_backward(self, step: Step, old: Memory, gradients: Gradients, contexts: Array, said: Array) -> Gradients:
        """One step of the memory, backwards: from the gradients of what it left to those of what it found.

        Args:
            step: what the forward pass left.
            old: the memory before the step.
            gradients: of the memory after it.
            contexts: of what was read.
            said: filled with those of what the controller said.
        """
        layout, interface, trace, after = self.layout, step.interface, step.trace, step.after
        reads, write, write_weights = layout.reads, after.write, after.write[:, None]

        # r = w M; w = π₁ b + π₂ c + π₃ f
        read = gradients.read + contexts @ after.slots.swapaxes(1, 2)
        memory = gradients.slots + after.read.swapaxes(1, 2) @ contexts
        modes = np.stack(
            [np.add.reduce(read * part, 2) for part in (trace.backward, trace.read_content.content, trace.forward)], 2
        )
        backward, content, forward = (read * interface.modes[:, :, at : at + 1] for at in range(3))
        read_keys, read_strengths = self.content_weights_backward(
            trace.read_content, interface.read_keys, interface.read_strengths, after, content, memory
        )
        link = gradients.link + forward.swapaxes(1, 2) @ old.read
        link += old.read.swapaxes(1, 2) @ backward
        before = forward @ after.link
        before += backward @ after.link.swapaxes(1, 2)

        # p' = (1 − Σw) p + w; L'[i, j] = (1 − w[i] − w[j]) L[i, j] + w[i] p[j]
        link *= self.run.other
        to_write = gradients.write + gradients.precedence
        to_write -= np.add.reduce(gradients.precedence * old.precedence, 1, keepdims=True)
        precedence = (1 - np.add.reduce(write, 1, keepdims=True)) * gradients.precedence
        precedence += (write_weights @ link)[:, 0]
        to_write += (link @ old.precedence[:, :, None])[:, :, 0]
        through = link * old.link
        to_write -= np.add.reduce(through, 1)
        to_write -= np.add.reduce(through, 2)
        link *= 1 - write[:, :, None] - write_weights

        # M' = M ∘ (1 − w eᵀ) + w vᵀ
        add = (write_weights @ memory)[:, 0]
        gone = memory * old.slots
        erase = -(write_weights @ gone)[:, 0]
        to_write += (memory @ interface.add[:, :, None])[:, :, 0]
        to_write -= (gone @ interface.erase[:, :, None])[:, :, 0]
        memory *= trace.stay

        # w = g_w [g_a a + (1 − g_a) c]
        found = trace.write_content.content[:, 0]
        difference = trace.allocated - found
        write_gate = np.add.reduce(to_write * (found + interface.allocation_gate * difference), 1)
        to_write *= interface.write_gate
        allocation_gate = np.add.reduce(to_write * difference, 1)
        allocated = to_write * interface.allocation_gate
        write_key, write_strength = self.content_weights_backward(
            trace.write_content,
            interface.write_key,
            interface.write_strength,
            old,
            (to_write - allocated)[:, None],
            memory,
        )

        # a[j] = (1 − u[j]) Π u[i] over the freer i; u = (u + w − u w) Π (1 − f r)
        usage = gradients.usage + self.allocation_backward(trace, allocated)
        joined, free = usage, np.empty((len(said), reads), said.dtype)
        for head in range(reads):
            joined = joined * trace.kept[:, head]
            slope = usage * trace.joined
            for another in range(reads):
                if another != head:
                    slope = slope * trace.kept[:, another]
            free[:, head] = -np.add.reduce(slope * old.read[:, head], 1)
            before[:, head] -= slope * interface.free[:, head, None]

        self.interface_backward(said, interface, read_keys, write_key, add, erase, free, allocation_gate, write_gate,
                 read_strengths, write_strength, modes)  # fmt: skip
        return Gradients(memory, joined * (1 - old.write), link, precedence, joined * (1 - old.usage), before)

    def allocation_backward(self, trace: Trace, allocated: Array) -> Array:
        """Gradient of the usage from that of the allocation; the order stands as it is.

        Of a rising usage r: `da[k]/dr[j] = (1 − r[k]) Π_{i<k, i≠j} r[i]` for k > j, and `−Π_{i<j} r[i]` for k = j. The
        product without r[j] is divided out of the whole one, over usages that are not quite 0.
        """
        above = np.maximum(trace.rising, 1e-30)
        before = np.empty_like(above)
        before[:, 0] = 1
        np.multiply.accumulate(above[:, :-1], 1, out=before[:, 1:])
        sorted_slope = np.take_along_axis(allocated, trace.order, 1)
        terms = sorted_slope * (1 - trace.rising) * before
        later = np.zeros_like(terms)
        later[:, :-1] = np.add.accumulate(terms[:, :0:-1], 1)[:, ::-1]
        later /= above
        later -= sorted_slope * trace.before
        usage = np.empty_like(later)
        np.put_along_axis(usage, trace.order, later, 1)
        return usage

    def content_weights_backward(
        self,
        content_weights: ContentWeights,
        keys: Array,
        strengths: Array,
        memory: Memory,
        content: Array,
        to_memory: Array,
    ) -> tuple[Array, Array]:
        """Gradients of keys and strengths from those of content weights; `to_memory` gains the memory's."""
        scores = softmax_backward(content, content_weights.content)
        to_strengths = np.add.reduce(scores * content_weights.likeness, 2)
        scores *= strengths
        turned = scores * content_weights.likeness
        scores *= content_weights.key_length
        scores *= memory.length[:, None]
        to_keys = scores @ memory.slots
        to_keys -= keys * (
            np.add.reduce(turned, 2, keepdims=True) * content_weights.key_length * content_weights.key_length
        )
        to_memory += scores.swapaxes(1, 2) @ keys
        to_memory -= memory.slots * (np.add.reduce(turned, 1) * memory.length * memory.length)[:, :, None]
        return to_keys, to_strengths

    def interface_backward(
        self, said: Array, interface: Interface, read_keys: Array, write_key: Array, add: Array, erase: Array,
        free: Array, allocation_gate: Array, write_gate: Array, read_strengths: Array, write_strength: Array,
        modes: Array,
    ) -> None:  # fmt: skip
        """Lay the gradients of all parts where ξ has them, through what brought them into range."""
        reads, width, batch = self.layout.reads, self.layout.slot_dim, len(said)
        plain, gates, strengths, _ = self.run.edges
        said[:, : reads * width] = read_keys.reshape(batch, -1)
        said[:, reads * width : plain - width] = write_key[:, 0]
        said[:, plain - width : plain] = add
        shares = said[:, plain:gates]
        shares[:, :width] = erase
        shares[:, width:-2] = free if self.layout.frees else 0
        shares[:, -2], shares[:, -1] = allocation_gate, write_gate
        shares *= interface.shares - interface.shares * interface.shares
        said[:, gates : strengths - 1], said[:, strengths - 1 : strengths] = read_strengths, write_strength
        said[:, gates:strengths] *= -np.expm1(-interface.excess)
        said[:, strengths:] = softmax_backward(modes, interface.modes).reshape(batch, -1)
