"""How well a language model tells a whole text, each piece from all those before it."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.data.stream import stretches
from regard.layers.objective import IGNORED
from regard.models.language import LanguageModel

STRETCH = 1024
"""Pieces that are read from one fresh state."""


@dataclass
class Told:
    """Sums over pieces.

    Attributes:
        nats: −log p of each, summed.
        correct: for how many of them the likeliest piece was the right one.
        pieces: how many.
        each: the three by the place of a piece in its stretch, from 0.
    """

    nats: float = 0.0
    correct: int = 0
    pieces: int = 0
    each: list[tuple[float, int, int]] = field(default_factory=list)

    def of(self, first: int, last: int | None) -> "Told":
        """The sums over some places of the stretches."""
        some = self.each[first:last]
        nats, correct, pieces = (sum(column) for column in zip(*some, strict=True)) if some else (0.0, 0, 0)
        return Told(nats, int(correct), int(pieces), some)


@torch.no_grad()
def read_through(model: LanguageModel, stream: list[int], window: int) -> Told:
    """Read a text in parallel stretches of `STRETCH` pieces, each from a fresh state that is carried to its end.

    The size of the window changes no result but by float32 rounds: the state is handed on from one to the next.

    Args:
        model: in eval mode.
        stream: the ids of the text.
        window: pieces of each stretch that are computed together.
    """
    device = next(model.parameters()).device
    told, state = Told(), None
    for part in stretches(stream, STRETCH, window, IGNORED):
        wanted = part.told.to(device)
        state = model.reader.start(len(wanted)) if state is None else state
        logits, state = model.read(part.read.to(device), state)
        nats, correct, kept = _sums(logits, wanted)
        told.each += list(zip(nats.tolist(), correct.tolist(), kept.tolist(), strict=True))
    whole = told.of(0, None)
    return Told(whole.nats, whole.correct, whole.pieces, told.each)


def _sums(logits: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each place −log p, right ones and pieces, summed over the stretches."""
    kept = wanted != IGNORED
    target = torch.where(kept, wanted, 0)
    nats = -logits.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1).double()
    correct = (logits.argmax(-1) == wanted) & kept
    return torch.where(kept, nats, 0.0).sum(0), correct.sum(0), kept.sum(0)
