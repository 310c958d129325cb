"""A reader of stories: each sentence becomes one vector, and a model of sequences reads them one after the other.

    words ── embeddings, weighted by position, summed ── + kind of step ── machine, a step a sentence ── answer

Sentence by sentence, where the authors of the differentiable neural computer read word by word: a story then has a
seventh of the steps, and a step writes one whole fact, so that what a head reads can be laid beside the facts that the
answer needs. The vector is the position-weighted bag of words of Sukhbaatar et al. (2015, arXiv 1503.08895, 4.1).
"""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.models.memory.sequences import build
from regard.models.reading.story_settings import StoryReaderSettings
from regard.vocabulary import PADDING


class StoryReader(nn.Module):
    """Reads stories with questions, and scores the answers at each step.

    Args:
        settings: the choices.
        words: how many ids there are; 0 is padding.
        kinds: how many kinds of steps there are; 0 is none.
        answers: how many answers.
    """

    def __init__(self, settings: StoryReaderSettings, words: int, kinds: int, answers: int) -> None:
        super().__init__()
        self.settings = settings
        dim = settings.embedding_dim
        self.words = nn.Embedding(words, dim, padding_idx=PADDING)
        self.kinds = nn.Embedding(kinds, dim, padding_idx=PADDING)  # the kind of steps behind a story's end is 0 too
        self.machine: Any = build(settings.machine, dim, answers)

    def forward(
        self, words: Int64[Tensor, "batch time words"], kinds: Int64[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time answers"]:
        """Logits of the answers at every step."""
        logits: Tensor = self.machine(self.sentences(words, kinds))
        return logits

    def sentences(
        self, words: Int64[Tensor, "batch time words"], kinds: Int64[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time dim"]:
        """`Σ_j l_j ∘ e(word j)` with `l_kj = (1 − j/J) − (k/d)(1 − 2j/J)` over the J words, and the kind's vector.

        Words count from j = 1, and components from k = 1.
        """
        each = self.words(words)
        count, width = (words != PADDING).sum(-1, keepdim=True).clamp_min(1), each.shape[-1]
        place = torch.arange(1, words.shape[-1] + 1, device=words.device) / count
        part = torch.arange(1, width + 1, device=words.device) / width
        # l is 1 − j/J where k is small, and j/J where it is large: two weighted sums, mixed by k.
        early, late = torch.stack([1 - place, place], dim=-2).matmul(each).unbind(-2)
        mixed: Tensor = (1 - part) * early + part * late + self.kinds(kinds)
        return mixed
