"""The recurrent translator: read the source both ways, write the target word by word, attending to it at each.

    source ids ── word vectors ── BidirectionalEncoder ── Memory ── decoder ── features ── vocabulary ── logits

`RecurrentSettings` chooses the variant; the papers' equations stand beside the lines of the decoders: Bahdanau, Cho &
Bengio (2015), Luong, Pham & Manning (2015), and the fixed contexts of Cho et al. and Sutskever et al. (2014).
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_exactly
from regard.layers.decoder import State
from regard.layers.dropout import Dropout, drop_words
from regard.layers.objective import Objective, objective, vocabulary_objective
from regard.layers.recurrent import BidirectionalEncoder
from regard.models.seq2seq.recurrent_decoder import DECODERS, Memory, Reading, embedding, recurrent_decoder
from regard.models.seq2seq.settings import RecurrentSettings
from regard.vocabulary import UNKNOWN


@runtime_checkable
class Pairs(Protocol):
    """A batch of sentence pairs, as `data.translation.batches.TextBatch`."""

    source: Int[Tensor, "batch positions"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch steps"]
    target_out: Int[Tensor, "batch steps"]
    target_lengths: Int[Tensor, " batch"]


class RecurrentTranslator(nn.Module):
    """Encoder and decoder, and their training objective.

    `decoder` follows `layers.decoder.Decoder`: `decoder.start(translator.encode(source, lengths), batch)`, then `step`.

    Args:
        settings: the choices.
        source_vocabulary: number of source words, the padding (0) included.
        target_vocabulary: number of target words.

    Raises:
        ConfigError: one table is asked for two vocabularies of different sizes, or the score does not fit the widths.
    """

    def __init__(self, settings: RecurrentSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        if settings.tied == "all" and source_vocabulary != target_vocabulary:
            raise ConfigError(
                f"one table for both languages (tied: all) needs one vocabulary; the source has {source_vocabulary} "
                f"words, the target {target_vocabulary}. Share the vocabulary, or take tied: target"
            )
        self.settings = settings
        # One table is one parameter, held by the decoder, so that it is saved once.
        self.embedding = None if settings.tied == "all" else embedding(source_vocabulary, settings.embedding_dim)
        self.encoder = BidirectionalEncoder(
            settings.cell, settings.embedding_dim, settings.encoder_dim, settings.encoder_layers, settings.dropout
        )
        self.decoder = recurrent_decoder(settings, target_vocabulary, self.encoder.states_dim)
        self.dropout = Dropout(settings.dropout)

    def encode(self, source: Int[Tensor, "batch positions"], lengths: Int[Tensor, " batch"]) -> Memory:
        """Read the source; what stands beyond a row's length changes nothing."""
        table = self.decoder.embedding if self.embedding is None else self.embedding
        states, final = self.encoder(self.dropout(table(source)), lengths)
        return Memory(self.dropout(states), lengths, final)

    def features(self, batch: Pairs) -> tuple[Float[Tensor, "tokens readout_dim"], Int[Tensor, " tokens"]]:
        """What the output layer reads at each real target word, and these words; padding is left out."""
        steps = torch.arange(batch.target_out.shape[1], device=batch.target_out.device)
        kept = steps < batch.target_lengths.unsqueeze(-1)
        forced = self.training and self.settings.teacher_forcing < 1
        if not forced and not is_exactly(self, RecurrentTranslator):
            return self.reading(batch).features[kept], batch.target_out[kept]
        state = self.decoder.start(self.encode(batch.source, batch.source_lengths), len(batch.source))
        target_in = self._with_word_dropout(batch.target_in)
        if forced:
            features = self._scheduled_sampling(state, target_in)[kept]
        else:
            features = self.decoder.real_features(state, target_in, batch.target_lengths)
        return features, batch.target_out[kept]

    def reading(self, batch: Pairs) -> Reading:
        """What the output layer reads at every target position, padding too, and its attention to the source."""
        state = self.decoder.start(self.encode(batch.source, batch.source_lengths), len(batch.source))
        return self.decoder.features(state, self._with_word_dropout(batch.target_in))

    def vocabulary(self, features: Float[Tensor, "*rows readout_dim"]) -> Float[Tensor, "*rows choices"]:
        """Logits of all target words: one matrix product over all rows."""
        return self.decoder.vocabulary(features)

    def objective(self, batch: Pairs, smoothing: float = 0.0) -> Objective:
        """Summed loss (nats), tokens and right predictions over the real target words."""
        features, targets = self.features(batch)
        plain = is_exactly(self, RecurrentTranslator)
        if not plain or not is_exactly(self.decoder, *DECODERS):
            return objective(self.vocabulary(features), targets, smoothing)
        return vocabulary_objective(features, *self.decoder.output_weights(), targets, smoothing)

    def forward(self, batch: Pairs, smoothing: float = 0.0) -> Objective:
        """The objective; wrappers such as distributed data parallel work through `forward`."""
        return self.objective(batch, smoothing)

    def _with_word_dropout(self, target_in: Int[Tensor, "batch steps"]) -> Int[Tensor, "batch steps"]:
        """The decoder's inputs, in training with word dropout."""
        if not self.training or self.settings.word_dropout == 0:
            return target_in
        return drop_words(target_in, self.settings.word_dropout, UNKNOWN)

    def _scheduled_sampling(
        self, state: State, target_in: Int[Tensor, "batch steps"]
    ) -> Float[Tensor, "batch steps readout_dim"]:
        """Each input but the first is the right word with probability `teacher_forcing`, else the model's own choice.

        The draws are independent by row and step (scheduled sampling at a fixed rate, Bengio et al. 2015); no gradient
        passes through a choice.
        """
        forced = torch.rand(target_in.shape, device=target_in.device) < self.settings.teacher_forcing
        inputs, features = target_in[:, :1], []
        for step in range(target_in.shape[1]):
            reading = self.decoder.features(state, inputs)
            features.append(reading.features)
            if step + 1 < target_in.shape[1]:
                with torch.no_grad():
                    own = self.vocabulary(reading.features[:, 0]).argmax(-1)
                inputs = torch.where(forced[:, step + 1], target_in[:, step + 1], own).unsqueeze(1)
            state = State(state.fixed, reading.moving)
        return torch.cat(features, dim=1)
