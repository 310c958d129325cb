"""The Neural Turing machine (Graves, Wayne & Danihelka 2014): a controller moves heads over a memory.

    x[t], r[t−1] ── controller ── heads: score · normalize · refocus ── w[t] ── read r[t], erase, add ── M[t]
                        └───────────────────────── [h[t]; r[t]] ── linear ── y[t]

A head is one row of the family: the cosine times β, a softmax, three refocusing stages, an expectation. The heads of a
step attend to the memory that the step before has left: it is read first, then written.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.parts.refocus import interpolate, sharpen, shift
from regard.attention.parts.score import score
from regard.kernels.autograd.hooks import is_exactly
from regard.kernels.memory.turing import Layout, machine
from regard.layers.controller import Controller, cell_and_interface, project_inputs
from regard.layers.recurrent import Carried, Weights
from regard.layers.reference import reference_tensor
from regard.layers.sequence import HookPoint, StepOutput
from regard.models.memory.sequences import by_steps, check_sequences, check_step
from regard.models.memory.settings import NTMSettings


class NTMState(NamedTuple):
    """The state of the machine between two steps.

    Attributes:
        controller: of the controller.
        memory: M, one slot a row.
        weights: w, where each head was: those that read, then those that write.
        reads: r, what was read last.
    """

    controller: Carried
    memory: Float[Tensor, "batch slots slot_dim"]
    weights: Float[Tensor, "batch heads slots"]
    reads: Float[Tensor, "batch reads slot_dim"]


class HeadParameters(NamedTuple):
    """The parameters of all heads at one step (Graves 2014, sections 3.1 to 3.3).

    Attributes:
        key: k, in (−1, 1).
        strength: β ≥ 0.
        gate: g in (0, 1).
        shift: s, a distribution over the shifts −reach … reach.
        exponent: γ ≥ 1.
        erase: e in (0, 1), of the heads that write.
        add: a in (−1, 1), likewise.
    """

    key: Float[Tensor, "batch heads slot_dim"]
    strength: Float[Tensor, "batch heads"]
    gate: Float[Tensor, "batch heads"]
    shift: Float[Tensor, "batch heads shifts"]
    exponent: Float[Tensor, "batch heads"]
    erase: Float[Tensor, "batch writes slot_dim"]
    add: Float[Tensor, "batch writes slot_dim"]


def head_parameters(layout: Layout, raw: Float[Tensor, "batch parameters"]) -> HeadParameters:
    """The controller's output, each parameter brought into its range."""
    heads, writes, dim = layout.heads, layout.writes, layout.slot_dim
    free, shares, positive, shifts = raw.split(layout.widths, dim=-1)
    vectors = free.tanh().unflatten(-1, (heads + writes, dim))
    shares, positive = shares.sigmoid(), nn.functional.softplus(positive)
    return HeadParameters(
        key=vectors[:, :heads],
        strength=positive[:, :heads],
        gate=shares[:, writes * dim :],
        shift=shifts.unflatten(-1, (heads, -1)).softmax(-1),
        exponent=1 + positive[:, heads:],
        erase=shares[:, : writes * dim].unflatten(-1, (writes, dim)),
        add=vectors[:, heads:],
    )


class NeuralTuringMachine(nn.Module):
    """See `layers.sequence.SequenceModel`.

    Nothing in it is as long as the memory: the weights of a trained machine work with any number of slots.

    Args:
        settings: the choices.
        inputs: width of the inputs.
        outputs: width of the outputs.
    """

    def __init__(self, settings: NTMSettings, inputs: int, outputs: int) -> None:
        super().__init__()
        self.settings = settings
        self.layout = Layout(
            settings.read_heads, settings.write_heads, settings.slots, settings.slot_dim, settings.reach
        )
        self.inputs, self.outputs = inputs, outputs
        read = settings.read_heads * settings.slot_dim
        self.controller = Controller(settings.controller, inputs + read, settings.width, settings.layers)
        self.orders = nn.Linear(settings.width, sum(self.layout.widths))
        self.readout = nn.Linear(settings.width + read, outputs)
        self.names = [
            *(f"read {number}" for number in range(settings.read_heads)),
            *(f"write {number}" for number in range(settings.write_heads)),
        ]
        self.heads = nn.ModuleDict({name: HookPoint() for name in self.names})

    def start(self, batch: int) -> NTMState:
        """The memory holds one small constant (Collier & Beel 2018); all heads stand at slot 0."""
        layout, weight = self.layout, reference_tensor(self)
        weights = weight.new_zeros(batch, layout.heads, layout.slots)
        weights[..., 0] = 1
        return NTMState(
            controller=self.controller.start(batch),
            memory=weight.new_full((batch, layout.slots, layout.slot_dim), self.settings.memory),
            weights=weights,
            reads=weight.new_zeros(batch, layout.reads, layout.slot_dim),
        )

    def step(self, state: NTMState, inputs: Float[Tensor, "batch inputs"]) -> StepOutput:
        """One time step: the controller, the heads' weights, then read, erase and add.

        Raises:
            ShapeError: the inputs have another shape than this machine was made for, or other rows than the state.
        """
        check_step(inputs, self.inputs, state.memory.shape[0])
        hidden, controller = self.controller(torch.cat([inputs, state.reads.flatten(1)], dim=-1), state.controller)
        head = head_parameters(self.layout, self.orders(hidden))
        # All heads in one call, (batch, heads, 1 query, …) against one memory.
        memory = state.memory.unsqueeze(1)
        attended = attend(
            head.key.unsqueeze(2),
            memory,
            memory,  # (2) r = Σ w(i) M(i)
            score=score("cosine", strength=head.strength.unsqueeze(2)),  # (5), (6) softmax(β K[k, M(i)])
            refocus=[
                interpolate(state.weights.unsqueeze(2), head.gate.unsqueeze(2)),  # (7) g w_c + (1 − g) w[t−1]
                shift(head.shift.unsqueeze(2)),  # (8) Σ w_g(j) s(i − j)
                sharpen(head.exponent.unsqueeze(2)),  # (9) w̃(i)^γ / Σ w̃(j)^γ
            ],
        )
        context, weights = attended.context, attended.weights
        assert context is not None
        reads = context[:, : self.layout.reads].squeeze(2)
        writing = weights[:, self.layout.reads :].transpose(-2, -1)  # (batch, writes, slots, 1)
        kept = (1 - writing * head.erase.unsqueeze(2)).prod(dim=1)  # (3) M[t−1] (1 − w e), of all heads
        added = (writing * head.add.unsqueeze(2)).sum(dim=1)  # (4) + w a
        output = self.readout(torch.cat([hidden, reads.flatten(1)], dim=-1))
        after = NTMState(controller, state.memory * kept + added, weights.squeeze(2), reads)
        attended_by_head = {
            name: point(Attended(context[:, at] if at < self.layout.reads else None, weights=weights[:, at]))
            for at, (name, point) in enumerate(self.heads.items())
        }
        return StepOutput(output, after, attended_by_head)

    def forward(self, inputs: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Whole sequences, with a hand-written backward where it applies (`kernels/memory/turing.py`).

        Raises:
            ShapeError: the inputs have another shape than this machine was made for.
        """
        check_sequences(inputs, self.inputs)
        plain = all(inputs.shape[:2]) and is_exactly(self, NeuralTuringMachine)
        weights = cell_and_interface(inputs, self.controller, self.orders, self.readout) if plain else None
        if weights is None:
            return by_steps(self.step, self.start(inputs.shape[0]), inputs, self.outputs)[0]
        return self._fast(inputs, *weights)

    def _fast(self, inputs: Tensor, cell: Weights, interface: tuple[Tensor, ...]) -> Tensor:
        state = self.start(inputs.shape[0])
        projected, recurrent = project_inputs(cell, inputs)
        weight, bias = interface
        hidden, reads, weights = machine(self.layout, projected, recurrent, weight, bias, state.memory, state.weights)
        for head, point in enumerate(self.heads.values()):
            context = None
            if head < self.layout.reads:
                context = reads.unflatten(-1, (self.layout.reads, -1))[:, :, head].transpose(0, 1)
            point(Attended(context, weights=weights[:, :, head].transpose(0, 1)))
        return self.readout(torch.cat([hidden, reads], dim=-1)).transpose(0, 1)
