"""A classifier of sentences: words are read, and what was read at all of them is pooled.

words ── embedding ── reader (LSTM, LSTMN, Transformer) ── pooling (mean, maximum, learned queries) ── linear ── labels
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.modules.pooling import LearnedQueries
from regard.attention.parts import masks
from regard.layers.dropout import Dropout
from regard.layers.objective import Objective, objective
from regard.models.text.bidirectional import BidirectionalTransformer
from regard.models.text.classifier_settings import ClassifierFields, TransformerClassifierSettings
from regard.models.text.reader import Reader, make_reader


@runtime_checkable
class Sentences(Protocol):
    """What training reads: ids padded on the right, the words of each sentence, and the number of its label."""

    @property
    def ids(self) -> Tensor:
        """Word ids, padded on the right, `(batch, positions)`."""
        ...

    @property
    def lengths(self) -> Tensor:
        """Words of each sentence, `(batch,)`."""
        ...

    @property
    def labels(self) -> Tensor:
        """The number of each sentence's label, `(batch,)`."""
        ...


class Classifier(nn.Module):
    """See the module.

    Args:
        settings: the choices; their `kind` says what reads the words.
        vocabulary: how many ids there are.
        labels: how many labels.
        unknown: the id that replaces a word dropped by `word_dropout`.
    """

    def __init__(self, settings: ClassifierFields, vocabulary: int, labels: int, unknown: int) -> None:
        super().__init__()
        self.settings, self.unknown = settings, unknown
        self.embedding = nn.Embedding(vocabulary, settings.embedding_dim)
        nn.init.normal_(self.embedding.weight, std=settings.embedding_dim**-0.5)
        self.input_dropout = Dropout(settings.input_dropout)
        self.output_dropout = Dropout(settings.output_dropout)
        self.reader: Reader | BidirectionalTransformer
        if isinstance(settings, TransformerClassifierSettings):
            self.reader = BidirectionalTransformer(settings, settings.embedding_dim)
        else:
            self.reader = make_reader(settings, settings.embedding_dim)
        width = self.reader.width + (settings.embedding_dim if settings.words_too else 0)
        self.pools = nn.ModuleDict(
            {"query": LearnedQueries(settings.queries, width)} if "query" in settings.pooling else {}
        )
        pooled = sum(width * (settings.queries if name == "query" else 1) for name in settings.pooling)
        self.readout = nn.Linear(pooled, labels)

    def forward(
        self, ids: Int[Tensor, "batch positions"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch labels"]:
        """Logits of the labels. A sentence without words is judged by the bias alone.

        Args:
            ids: padded on the right with anything.
            lengths: words of each.
        """
        logits: Tensor = self.readout(self.output_dropout(self.pool(self.states(ids, lengths), lengths)))
        return logits

    def states(
        self, ids: Int[Tensor, "batch positions"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch positions width"]:
        """A state at each word, beside the word's own vector with `words_too`."""
        real = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(-1)
        ids = torch.where(real, ids, 0)
        if self.training and self.settings.word_dropout:
            ids = torch.where(torch.rand(ids.shape, device=ids.device) < self.settings.word_dropout, self.unknown, ids)
        words = self.input_dropout(self.embedding(ids))
        if isinstance(self.reader, BidirectionalTransformer):
            read = self.reader(words, real).output
        else:
            read, _ = self.reader(words, self.reader.start(len(ids)))
        return torch.cat([read, words], -1) if self.settings.words_too else read

    def pool(
        self, states: Float[Tensor, "batch positions width"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch pooled"]:
        """One vector a sentence, of its real positions alone; 0 where it has none."""
        real = (torch.arange(states.shape[1], device=states.device) < lengths.unsqueeze(-1)).unsqueeze(-1)
        made = []
        for name in self.settings.pooling:
            if name == "mean":
                made.append(torch.where(real, states, 0).sum(1) / lengths.clamp_min(1).unsqueeze(-1))
            elif name == "query":
                made.append(self.pools[name](states, mask=masks.padding(lengths)).context)
            elif states.shape[1] == 0:
                made.append(states.new_zeros(states.shape[0], states.shape[2]))
            else:
                most = torch.where(real, states, -torch.inf).amax(1)
                made.append(torch.where(lengths.unsqueeze(-1) > 0, most, 0))
        return torch.cat(made, -1)

    def loss(self, batch: Sentences, smoothing: float = 0.0) -> Objective:
        """Sums over the sentences of a batch."""
        return objective(self(batch.ids, batch.lengths), batch.labels, smoothing)
