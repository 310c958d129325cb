"""The differentiable neural computer (Graves, Wayne, Reynolds et al. 2016, Nature 538, Methods).

    input, contexts read before ── controller ── interface ξ
                                                    │
    write: content (cosine × β, softmax over M[t−1]) ── refocus: allocation, gates ── erase, then add ── M[t]
    read:  content (cosine × β, softmax over M[t])   ── refocus: backward and forward links ── expectation: contexts
                                                    │
    output = W [controller; contexts]

The paper's symbols: M memory (N slots of width W), u usage, a allocation, L links, p precedence, w weights, R heads.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.attended import Attended
from regard.attention.parts.score import Cosine
from regard.kernels.autograd.hooks import is_exactly
from regard.kernels.memory.computer import Layout, computer
from regard.layers.controller import Controller, cell_and_interface, project_inputs
from regard.layers.dynamic_memory import (
    allocation,
    along,
    linked,
    oneplus,
    preceding,
    read_weighting,
    retention,
    used,
    write_weighting,
    written,
)
from regard.layers.recurrent import Weights
from regard.layers.reference import reference_tensor
from regard.layers.sequence import HookPoint, StepOutput
from regard.models.memory.sequences import by_steps, check_sequences, check_step
from regard.models.memory.settings import DNCSettings


class DNCState(NamedTuple):
    """All that lasts from step to step, batch first.

    Attributes:
        controller: the controller's own state.
        memory: M.
        usage: u.
        link: L.
        precedence: p.
        write: w^w, the write head's weights.
        read: w^r, the read heads' weights.
        contexts: r, what they read.
    """

    controller: tuple[Tensor, ...]
    memory: Float[Tensor, "batch slots slot_dim"]
    usage: Float[Tensor, "batch slots"]
    link: Float[Tensor, "batch slots slots"]
    precedence: Float[Tensor, "batch slots"]
    write: Float[Tensor, "batch slots"]
    read: Float[Tensor, "batch reads slots"]
    contexts: Float[Tensor, "batch reads slot_dim"]


class Interface(NamedTuple):
    """The interface vector ξ, each part brought into its range."""

    read_keys: Float[Tensor, "batch reads slot_dim"]
    read_strengths: Float[Tensor, "batch reads"]
    write_key: Float[Tensor, "batch 1 slot_dim"]
    write_strength: Float[Tensor, "batch 1"]
    add: Float[Tensor, "batch slot_dim"]
    erase: Float[Tensor, "batch slot_dim"]
    free_gates: Float[Tensor, "batch reads"]
    allocation_gate: Float[Tensor, "batch 1"]
    write_gate: Float[Tensor, "batch 1"]
    read_modes: Float[Tensor, "batch reads 3"]


class DifferentiableNeuralComputer(nn.Module):
    """See `layers.sequence.SequenceModel`. Heads: "write 0", and "read 0" … for R read heads.

    Args:
        settings: the choices.
        inputs: width of the inputs.
        outputs: width of the outputs.
    """

    def __init__(self, settings: DNCSettings, inputs: int, outputs: int) -> None:
        super().__init__()
        self.settings = settings
        self.layout = Layout(settings.read_heads, settings.slots, settings.slot_dim, settings.free_gates)
        self.inputs, self.outputs = inputs, outputs
        read = settings.read_heads * settings.slot_dim
        self.controller = Controller(settings.controller, inputs + read, settings.width, settings.layers)
        self.interface = nn.Linear(settings.width, sum(self.layout.widths))  # ξ = W_ξ h
        self.readout = nn.Linear(settings.width + read, outputs)  # y = W_y h + W_r [r¹; …; rᴿ]
        names = ["write 0", *(f"read {number}" for number in range(settings.read_heads))]
        self.heads = nn.ModuleDict({name: HookPoint() for name in names})

    def start(self, batch: int) -> DNCState:
        """Nothing read, nothing written: zeros."""
        slots, width, reads = self.settings.slots, self.settings.slot_dim, self.settings.read_heads
        zeros = reference_tensor(self).new_zeros
        return DNCState(
            controller=self.controller.start(batch),
            memory=zeros(batch, slots, width),
            usage=zeros(batch, slots),
            link=zeros(batch, slots, slots),
            precedence=zeros(batch, slots),
            write=zeros(batch, slots),
            read=zeros(batch, reads, slots),
            contexts=zeros(batch, reads, width),
        )

    def step(self, state: DNCState, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One time step: the controller, one write, R reads.

        Raises:
            ShapeError: the inputs have another shape than this computer was made for, or other rows than the state.
        """
        check_step(inputs, self.inputs, state.memory.shape[0])
        hidden, controller = self.controller(torch.cat([inputs, state.contexts.flatten(1)], dim=-1), state.controller)
        interface = split_interface(self.layout, self.interface(hidden))

        # Dynamic memory allocation: what readers set free, then what is in use, then where there is room.
        usage = used(state.usage, state.write, retention(interface.free_gates, state.read))
        wrote = attend(
            interface.write_key,
            state.memory,
            score=Cosine(interface.write_strength),  # c^w = C(M[t−1], k^w, β^w)
            refocus=write_weighting(allocation(usage), interface.allocation_gate, interface.write_gate),
        )
        write = wrote.weights.squeeze(1)
        memory = written(state.memory, write, interface.erase, interface.add)

        # Temporal links: which slot was written after which.
        link = linked(state.link, state.precedence, write)
        forward, backward = along(link, state.read)
        attended = attend(
            interface.read_keys,
            memory,
            memory,  # r = Mᵀ w
            score=Cosine(interface.read_strengths),  # c^r = C(M[t], k^r, β^r)
            refocus=read_weighting(forward, backward, interface.read_modes),
        )
        read, contexts = attended.weights, attended.context
        assert contexts is not None
        after = DNCState(controller, memory, usage, link, preceding(state.precedence, write), write, read, contexts)
        output = self.readout(torch.cat([hidden, contexts.flatten(1)], dim=-1))
        return StepOutput(output, after, self._record(wrote.weights, read, contexts))

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Whole sequences, with a hand-written backward where it applies (`kernels/memory/computer.py`).

        Raises:
            ShapeError: the inputs have another shape than this computer was made for.
        """
        check_sequences(inputs, self.inputs)
        plain = all(inputs.shape[:2]) and is_exactly(self, DifferentiableNeuralComputer)
        weights = cell_and_interface(inputs, self.controller, self.interface, self.readout) if plain else None
        if weights is None:
            return by_steps(self.step, self.start(inputs.shape[0]), inputs, self.outputs)[0]
        return self._fast(inputs, *weights)

    def _fast(self, inputs: Tensor, cell: Weights, interface: tuple[Tensor, ...]) -> Tensor:
        projected, recurrent = project_inputs(cell, inputs)
        hidden, contexts, read, write = computer(self.layout, projected, recurrent, *interface)
        # For the record, all steps of a head are the queries of one attention.
        apart = contexts.unflatten(-1, (self.settings.read_heads, -1)).transpose(0, 1)
        self._record(write.transpose(0, 1), read.permute(1, 2, 0, 3), apart.transpose(1, 2), steps=True)
        return self.readout(torch.cat([hidden, contexts], dim=-1)).transpose(0, 1)

    def _record(self, write: Tensor, read: Tensor, contexts: Tensor, steps: bool = False) -> dict[str, Attended]:
        """Each head's attention under its name: of one step, (batch, 1, slots), or of all, (batch, steps, slots)."""
        each = [Attended(None, weights=write)]
        for head in range(self.settings.read_heads):
            one = head if steps else slice(head, head + 1)
            each.append(Attended(contexts[:, one], weights=read[:, one]))
        return {name: point(attended) for (name, point), attended in zip(self.heads.items(), each, strict=True)}


def split_interface(layout: Layout, raw: Float[Tensor, "batch parts"]) -> Interface:
    """ξ taken apart: gates and what is erased through σ, strengths through oneplus, read modes through softmax."""
    plain, gates, strengths, modes = raw.split(layout.widths, dim=-1)
    read_keys, write_key, add = plain.split(layout.plain, dim=-1)
    erase, free, allocation_gate, write_gate = torch.sigmoid(gates).split(layout.gates, dim=-1)
    read_strengths, write_strength = oneplus(strengths).split(layout.strengths, dim=-1)
    return Interface(
        read_keys=read_keys.unflatten(-1, (layout.reads, -1)),
        read_strengths=read_strengths,
        write_key=write_key.unsqueeze(1),
        write_strength=write_strength,
        add=add,
        erase=erase,
        free_gates=free if layout.frees else torch.zeros_like(free),
        allocation_gate=allocation_gate,
        write_gate=write_gate,
        read_modes=modes.unflatten(-1, (layout.reads, 3)).softmax(-1),
    )
