"""Show, Attend and Tell (Xu et al. 2015): an LSTM that attends to a region of an image before each word.

image ── encoder ── a_1 … a_L, a cell of the grid each ── mean ── two MLPs ── h_0, c_0
h_{t−1} ── e_ti = vᵀ tanh(W a_i + U h_{t−1}) ── softmax: α_t (eq. 4, 5) ── ẑ_t = β_t φ(a, α_t), β_t = σ(f_β(h_{t−1}))
[E y_{t−1}; ẑ_t] ── LSTM ── h_t (eq. 1–3) ── p(y_t) ∝ exp L_o tanh(E y_{t−1} + L_h h_t + L_z ẑ_t) (eq. 7, without tanh)

φ is the mean under α (soft, eq. 13) or the one cell that is drawn from it (hard, eq. 8, 9). The losses of hard
attention stand in `tasks/captioning/learning.py`.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.attended import Attended
from regard.attention.parts.score import score
from regard.layers.decoder import State, Step, concatenated
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Recurrence
from regard.models.captioning.image_encoder import Grid, make_encoder
from regard.models.captioning.settings import CaptionerSettings

IMAGE = "image"
_COORDINATES = 2

_QUERY_GAIN = 6.0  # an LSTM's first states are about so much smaller than an annotation
_NORMALIZERS = {"soft": "softmax", "sample": "sample", "gumbel": "gumbel"}


class Memory(NamedTuple):
    """What the encoder gives.

    Attributes:
        annotations: a vector for each cell of the grid, row by row.
        shape: rows and columns of the grid.
    """

    annotations: Float[Tensor, "batch cells annotation"]
    shape: tuple[int, int]

    def rows(self, rows: Int[Tensor, " some"]) -> "Memory":
        """Of some images of the batch."""
        return Memory(self.annotations[rows], self.shape)


class CaptionDecoder(nn.Module):
    """Attends, then steps; see `layers.decoder`.

    Args:
        settings: the model's.
        vocabulary: number of words, the padding (0) included.
    """

    alignment: str | None = IMAGE

    def __init__(self, settings: CaptionerSettings, vocabulary: int) -> None:
        super().__init__()
        annotation, embedding, state = settings.annotation_dim, settings.embedding_dim, settings.state_dim
        self.settings = settings
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=embedding**-0.5)
        self.score = score("additive", query_dim=state, key_dim=annotation, hidden_dim=settings.attention_dim)
        # Query and key meet only where tanh bends: at small sums their softmax knows nothing of the query.
        nn.init.xavier_uniform_(self.score.get_parameter("query_weight"), gain=_QUERY_GAIN)
        self.gate = nn.Linear(state, 1)
        self.recurrence = Recurrence("lstm", embedding + annotation, state)
        self.first = nn.ModuleList(
            nn.Sequential(nn.Linear(annotation, state), nn.Tanh(), nn.Linear(state, state)) for _ in range(2)
        )
        self.from_state = nn.Linear(state, embedding)
        self.from_context = nn.Linear(annotation, embedding, bias=False)
        self.dropout = Dropout(settings.dropout)
        self.output = nn.Linear(embedding, vocabulary)

    def start(self, memory: Memory, batch: int) -> State:
        """`h_0 = f_h(mean of a)`, `c_0 = f_c(mean of a)`: what the image holds, before any attention (§3.1.2).

        The mean of L cells is scaled by √L, for objects are small and images would hardly differ.
        """
        cells = memory.annotations.shape[1]
        mean = memory.annotations.mean(1, keepdim=True) * math.sqrt(cells)
        carried = tuple(to(mean) for to in self.first)
        fixed = {"prepared": self.score.prepare(memory.annotations), "annotations": memory.annotations}
        return State(fixed, {"carried": carried})

    def step(
        self, state: State, inputs: Int[Tensor, "batch n"], expected: Bool[Tensor, " batch"] | None = None
    ) -> Step:
        """Read n words, each after attending, and score the next one after each.

        Args:
            state: what was read before.
            inputs: the words.
            expected: rows that read the mean where the others read the cell that was drawn (§4.1).
        """
        embedded = self.embedding(inputs)
        carried, hiddens, contexts, attentions = state.moving["carried"], [], [], []
        for one in embedded.split(1, dim=1):
            before = carried[0]  # h_{t−1}; one layer is one position
            attended, context = self._attend(state.fixed, before, expected)
            hidden, carried = self.recurrence(torch.cat([one, context], dim=-1), carried)
            hiddens.append(hidden)
            contexts.append(context)
            attentions.append(attended)
        deep = embedded + self.from_state(self.dropout(torch.cat(hiddens, 1)))
        logits = self.output(self.dropout(torch.tanh(deep + self.from_context(torch.cat(contexts, 1)))))
        all_steps = concatenated(attentions)
        return Step(logits, State(state.fixed, {"carried": carried}), {} if all_steps is None else {IMAGE: all_steps})

    def _attend(
        self, fixed: dict[str, Any], before: Tensor, expected: Tensor | None
    ) -> tuple[Attended, Float[Tensor, "batch 1 annotation"]]:
        annotations = fixed["annotations"]
        normalizer = self._normalizer()
        attended = attend(before, fixed["prepared"], annotations, score=self.score, normalizer=normalizer)
        context: Any = attended.context
        if expected is not None:
            mean = attended.log_weights.exp() @ annotations
            context = torch.where(expected[:, None, None], mean, context)
        return attended, torch.sigmoid(self.gate(before)) * context

    def _normalizer(self) -> str:
        """At inference hard attention takes the likeliest cell, unless `at_use` is drawn."""
        if self.training or self.settings.at_use == "drawn" or self.settings.look == "soft":
            return _NORMALIZERS[self.settings.look]
        return "hard"


class Captioner(nn.Module):
    """Encoder and decoder: `decoder.start(captioner.encode(pixels), batch)`, then `step`.

    Args:
        settings: the choices.
        vocabulary: number of words, the padding (0) included.
    """

    def __init__(self, settings: CaptionerSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = make_encoder(settings.encoder)
        self.annotate = nn.Linear(self.encoder.width + _COORDINATES, settings.annotation_dim, bias=False)
        self.norm = nn.BatchNorm1d(settings.annotation_dim)
        self.dropout = Dropout(settings.dropout)
        self.decoder = CaptionDecoder(settings, vocabulary)
        self.detectors = nn.Linear(settings.annotation_dim, vocabulary)
        nn.init.constant_(self.detectors.bias, -2.0)  # most words are in few captions
        self.register_buffer(
            "baseline", torch.zeros(())
        )  # of REINFORCE: a buffer, so that a resumed run continues with it

    baseline: Float[Tensor, ""]

    def encode(self, images: Num[Tensor, "batch height width channels"]) -> Memory:
        """Annotations: each of its cell's features and of where the cell is."""
        grid: Grid = self.encoder(images)
        placed = torch.cat([grid, places(grid)], dim=-1)
        annotations = self.norm(self.annotate(placed.flatten(0, 2))).unflatten(0, (len(grid), -1))
        return Memory(self.dropout(annotations), (grid.shape[1], grid.shape[2]))

    def detected(self, memory: Memory) -> Float[Tensor, "batch words"]:
        """A logit for each word: whether it belongs to the image, by a detector in each cell.

        `log mean_i exp(u·a_i + b)`, which goes with the best cells (Fang et al. 2015 learn detectors of words so). No
        caption needs it: it teaches the encoder.
        """
        return self.detectors(memory.annotations).logsumexp(1) - math.log(memory.annotations.shape[1])


def places(grid: Grid) -> Float[Tensor, "batch rows columns 2"]:
    """Each cell's row and column, from −1 to 1."""
    sides = [torch.linspace(-1, 1, count, device=grid.device, dtype=grid.dtype) for count in grid.shape[1:3]]
    return torch.stack(torch.meshgrid(*sides, indexing="ij"), dim=-1).expand(len(grid), -1, -1, -1)
