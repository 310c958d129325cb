"""Pointer networks (Vinyals, Fortunato & Jaitly 2015): a decoder whose choices are the positions of its input.

points ── linear ── reader (LSTM or self-attention) ── e_1 … e_n, and e_0 for "the end"
the point chosen before ── LSTM ── d_i ── u_ij = vᵀ tanh(W_1 e_j + W_2 d_i) ── softmax over j (eq. 3): the pointer

The attention stops before it reads: its weights are the answer. Invalid choices are masked out
(`models/pointing/rules.py`).
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attention
from regard.attention.attended import Attended
from regard.attention.parts import masks
from regard.attention.parts.score import score
from regard.errors import ShapeError
from regard.layers.decoder import State, Step
from regard.layers.recurrent import Recurrence
from regard.models.pointing.encoders import make_encoder
from regard.models.pointing.rules import Rule, Sets, rule_of
from regard.models.pointing.settings import PointerSettings

POINTER = "pointer"
END = 0


class Memory(NamedTuple):
    """What the encoder gives.

    Attributes:
        items: a vector for each choice, the end's first.
        summary: one vector of the whole set.
        sets: what the rule knows of it.
    """

    items: Float[Tensor, "batch choices width"]
    summary: Float[Tensor, "batch width"]
    sets: Sets


class PointerHead(nn.Module):
    """The pointer: `log p(choice) = log_softmax_j vᵀ tanh(W_1 e_j + W_2 d_i)` over the choices that are open."""

    alignment: str | None = POINTER

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = Attention(score("additive", query_dim=width, key_dim=width, hidden_dim=width))

    def prepare(self, items: Tensor) -> Any:
        """The items' half of the scores, once a set."""
        return self.attention.prepare(items)

    def forward(
        self, hidden: Tensor, prepared: Any, open: Bool[Tensor, "batch n choices"]
    ) -> tuple[Float[Tensor, "batch n choices"], dict[str, Attended]]:
        """Log-probabilities of the choices, and the attention that they are; a choice that is not open has −inf."""
        attended: Attended = self.attention(hidden, prepared, mask=masks.keep(open))
        return attended.log_weights, {POINTER: attended}


class SoftmaxHead(nn.Module):
    """The baseline: a softmax over a list of fixed length, from the decoder's state alone (Sutskever 2014)."""

    alignment: str | None = None

    def __init__(self, width: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.readout = nn.Linear(width, longest + 1)

    def prepare(self, items: Tensor) -> Any:
        """Nothing: this head has no keys.

        Raises:
            ShapeError: there are more points than the list has numbers.
        """
        if items.shape[1] > self.longest + 1:
            raise ShapeError(
                f"there are {items.shape[1] - 1} points; this model chooses a number from 1 to {self.longest}, the "
                "most that it was trained on. A pointer (model.kind=pointer) takes any"
            )
        return ()

    def forward(
        self, hidden: Tensor, prepared: Any, open: Bool[Tensor, "batch n choices"]
    ) -> tuple[Float[Tensor, "batch n choices"], dict[str, Attended]]:
        """Log-probabilities of the choices; a choice that is not open has −inf. There is no attention."""
        scores = self.readout(hidden)[..., : open.shape[-1]]
        return torch.where(open, scores, -torch.inf).log_softmax(-1), {}


class PointerDecoder(nn.Module):
    """Chooses step by step; see `layers.decoder`. Choice 0 begins and ends an answer, n is the n-th point.

    Args:
        width: of all vectors.
        rule: which choices are open.
        readout: what makes log-probabilities of the state.
    """

    def __init__(self, width: int, rule: Rule, readout: PointerHead | SoftmaxHead) -> None:
        super().__init__()
        self.rule, self.width, self.readout = rule, width, readout
        self.alignment = readout.alignment
        self.begin = nn.Parameter(torch.randn(width) * width**-0.5)
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.recurrence = Recurrence("lstm", width, width)

    def start(self, memory: Memory, batch: int) -> State:
        """The state before the first choice: the LSTM's state and memory are linear maps of the set's summary."""
        first, second = (to(memory.summary).unsqueeze(1) for to in self.bridge)
        inputs = torch.cat([self.begin.expand(len(memory.items), 1, -1), memory.items[:, 1:]], dim=1)
        fixed = {"prepared": self.readout.prepare(memory.items), "inputs": inputs, "sets": memory.sets}
        return State(fixed, {"carried": (torch.tanh(first), second), "rule": self.rule.start(memory.sets)})

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Take n choices as made; all of them are one call of the LSTM and one of the attention."""
        fixed, progress, open = state.fixed, state.moving["rule"], []
        for choice in inputs.unbind(1):
            progress = self.rule.after(fixed["sets"], progress, choice)
            open.append(self.rule.open(fixed["sets"], progress))
        chosen = fixed["inputs"].gather(1, inputs[..., None].expand(-1, -1, self.width))
        hidden, carried = self.recurrence(chosen, state.moving["carried"])
        logits, attended = self.readout(hidden, fixed["prepared"], torch.stack(open, dim=1))
        return Step(logits, State(fixed, {"carried": carried, "rule": progress}), attended)


class PointerNetwork(nn.Module):
    """See the module.

    Args:
        settings: the choices.
        axes: numbers that a point has.
        rule: what an answer may be made of, a name of `models.pointing.rules.RULES`.
        longest: the most points that it is trained on, which bounds only the baseline.
    """

    def __init__(self, settings: PointerSettings, axes: int, rule: str, longest: int) -> None:
        super().__init__()
        width = settings.width
        self.embedding = nn.Linear(axes, width)
        self.reader = make_encoder(settings.reader, width)
        self.end = nn.Parameter(torch.randn(width) * width**-0.5)
        readout = PointerHead(width) if settings.kind == "pointer" else SoftmaxHead(width, longest)
        self.decoder = PointerDecoder(width, rule_of(rule), readout)

    def encode(self, points: Float[Tensor, "batch points axes"], lengths: Int[Tensor, " batch"]) -> Memory:
        """Read sets of points; what lies behind a set's own may be anything, and changes nothing."""
        sets = Sets.of(points, lengths)
        real = sets.real[:, 1:]
        read, summary = self.reader(self.embedding(torch.where(real[..., None], points, 0)), lengths, real)
        return Memory(torch.cat([self.end.expand(len(points), 1, -1), read], dim=1), summary, sets)

    def log_probabilities(
        self, memory: Memory, answers: Int[Tensor, "batch steps"]
    ) -> Float[Tensor, "batch steps choices"]:
        """Of every choice at each step of given answers, all steps at once; beside −1 and below they mean nothing."""
        before = torch.nn.functional.pad(answers.clamp_min(0)[:, :-1], (1, 0), value=END)
        return self.decoder.step(self.decoder.start(memory, len(answers)), before).logits

    @torch.no_grad()
    def draw(self, memory: Memory, steps: int) -> Int[Tensor, "batch steps"]:
        """Random answers of so many steps, each choice drawn as likely as the model finds it."""
        state = self.decoder.start(memory, len(memory.items))
        choice = torch.zeros(len(memory.items), 1, dtype=torch.long, device=memory.items.device)
        drawn = []
        for _ in range(steps):
            step = self.decoder.step(state, choice)
            state, choice = step.state, torch.multinomial(step.logits[:, 0].exp(), 1)
            drawn.append(choice)
        return torch.cat(drawn, dim=1)
