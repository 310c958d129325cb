"""A tagger: the words of a sentence attend to each other, and each gets a tag.

features of each word ── embedding, summed ── Transformer encoder ── linear ── tags
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.objective import Objective, objective
from regard.layers.transformer.stack import Stacked
from regard.models.text.tagger_settings import TaggerSettings
from regard.models.transformer.build import transformer_stack


@runtime_checkable
class TaggedWords(Protocol):
    """What training reads: ids of the features of each word, words of each sentence, the number of each one's tag."""

    @property
    def ids(self) -> Tensor:
        """Ids of each word's features, `(batch, words, features)`."""
        ...

    @property
    def lengths(self) -> Tensor:
        """Words of each sentence, `(batch,)`."""
        ...

    @property
    def tags(self) -> Tensor:
        """The number of each word's tag, `(batch, words)`; −100 at padding."""
        ...


class Tagger(nn.Module):
    """See the module.

    Args:
        settings: the choices.
        features: how many ids of features there are; 0 is none.
        tags: how many tags.
        unknown: the feature that stands for a word dropped by `word_dropout`.
    """

    def __init__(self, settings: TaggerSettings, features: int, tags: int, unknown: int) -> None:
        super().__init__()
        self.settings, self.unknown = settings, unknown
        self.embedding = nn.EmbeddingBag(features, settings.dim, mode="sum", padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)  # about ten features make a word
        with torch.no_grad():
            self.embedding.weight[0] = 0
        self.input_dropout = Dropout(settings.input_dropout)
        self.stack = transformer_stack(settings, settings.layers, causal=False)
        self.output_dropout = Dropout(settings.output_dropout)
        self.readout = nn.Linear(settings.dim, tags)

    def forward(
        self, ids: Int[Tensor, "batch words features"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch words tags"]:
        """Logits of the tags; beyond a sentence's end they mean nothing.

        Args:
            ids: of the features of each word, its own first; 0 where there is none.
            lengths: words of each sentence.
        """
        logits: Tensor = self.readout(self.output_dropout(self.read(ids, lengths).output))
        return logits

    def read(self, ids: Int[Tensor, "batch words features"], lengths: Int[Tensor, " batch"]) -> Stacked:
        """The states, and each layer's attention."""
        if self.training and self.settings.word_dropout:
            dropped = torch.rand(ids.shape[:2], device=ids.device) < self.settings.word_dropout
            own = torch.where(dropped, self.unknown, ids[..., 0])
            ids = torch.cat([own.unsqueeze(-1), ids[..., 1:]], -1)
        words = self.embedding(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
        stacked: Stacked = self.stack(self.input_dropout(words), keep=_keep(ids, lengths))
        return stacked

    def loss(self, batch: TaggedWords, smoothing: float = 0.0) -> Objective:
        """Sums over the words of a batch."""
        logits = self(batch.ids, batch.lengths)
        return objective(logits.flatten(0, 1), batch.tags.flatten(), smoothing)


def _keep(ids: Tensor, lengths: Tensor) -> Bool[Tensor, "batch words"] | None:
    real = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(-1)
    return None if bool(real.all()) else real
