"""Encoder–decoder (Vaswani et al. 2017): the decoder attends to its own past, and to the source by cross-attention."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attended import Attended
from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_exactly
from regard.layers.decoder import State, Step
from regard.layers.dropout import drop_words
from regard.layers.objective import Objective, objective
from regard.layers.transformer.cache import Cache
from regard.layers.transformer.stack import Memory, Stacked
from regard.models.transformer.build import make_readout, transformer_stack
from regard.models.transformer.embedding import Embedding
from regard.models.transformer.padding import padding_mask, unless_trivial
from regard.models.transformer.settings import TransformerTranslatorSettings
from regard.vocabulary import UNKNOWN


class TransformerDecoder(nn.Module):
    """The target's side of a translator: every token attends to itself and those before it, and to the source.

    Args:
        settings: the translator's.
        vocabulary: number of target tokens.
    """

    def __init__(self, settings: TransformerTranslatorSettings, vocabulary: int) -> None:
        super().__init__()
        self.alignment = f"cross {settings.aligning_layer}"
        self.embedding = Embedding(settings, vocabulary)
        self.stack = transformer_stack(
            settings, settings.decoder_layers, causal=True, across=True, window=settings.window
        )
        self.readout = make_readout(settings, vocabulary, None if settings.tied == "none" else self.embedding)

    def start(self, memory: "Source", batch: int) -> State:
        """The state before the first token: the source, its keys projected once, and an empty cache."""
        return State(self.stack.memory(memory.states, memory.keep), self.stack.start(batch))

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Read n tokens and score the next one after each. Id 0 is padding on either side, and masked out."""
        stacked = self.stack(self.embedding(inputs), keep=padding_mask(inputs), cache=state.moving, memory=state.fixed)
        return Step(self.readout(stacked.output), State(state.fixed, stacked.cache), stacked.attended)

    def read(self, memory: Memory, target_in: Int[Tensor, "batch steps"], cache: Cache | None = None) -> Stacked:
        """All steps at once. Padding on the right needs no mask: no real token attends to it.

        Args:
            memory: of the source, as `start` makes it.
            target_in: the target tokens that the decoder reads.
            cache: what was read before; None: nothing.
        """
        stacked: Stacked = self.stack(self.embedding(target_in), cache=cache, memory=memory)
        return stacked


class Source(NamedTuple):
    """A source sentence read: a pytree of tensors, batch first.

    Attributes:
        states: one vector a position.
        keep: True where it is real; None where all are.
    """

    states: Float[Tensor, "batch keys dim"]
    keep: Bool[Tensor, "batch keys"] | None


class Reading(NamedTuple):
    """The features at every target position, and its attention to the source."""

    features: Float[Tensor, "batch steps dim"]
    attended: Attended | None


class TransformerTranslator(nn.Module):
    """Read the source with an encoder, write the target with a decoder that attends to it.

    `decoder` follows `layers.decoder.Decoder`: `decoder.start(translator.encode(source, lengths), batch)`, then `step`.

    Args:
        settings: the choices.
        source_vocabulary: number of source tokens, the padding (0) included.
        target_vocabulary: number of target tokens.

    Raises:
        ConfigError: one table is asked for two vocabularies of different sizes.
    """

    def __init__(self, settings: TransformerTranslatorSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        if settings.tied == "all" and source_vocabulary != target_vocabulary:
            raise ConfigError(
                f"one table for both languages (tied: all) needs one vocabulary; the source has {source_vocabulary} "
                f"tokens, the target {target_vocabulary}. Share the vocabulary, or take tied: target"
            )
        self.settings = settings
        # One table is one parameter, held by the decoder, so that it is saved once.
        self.embedding = None if settings.tied == "all" else Embedding(settings, source_vocabulary)
        self.encoder = transformer_stack(settings, settings.encoder_layers, causal=False)
        self.decoder = TransformerDecoder(settings, target_vocabulary)

    def encode(self, source: Int[Tensor, "batch positions"], lengths: Int[Tensor, " batch"]) -> Source:
        """Read the source; what stands beyond a row's length changes nothing."""
        return Source(self.read(source, lengths).output, self._keep(source, lengths))

    def read(self, source: Int[Tensor, "batch positions"], lengths: Int[Tensor, " batch"]) -> Stacked:
        """The source's states, and the attention of each layer of the encoder."""
        table = self.decoder.embedding if self.embedding is None else self.embedding
        stacked: Stacked = self.encoder(table(source), keep=self._keep(source, lengths))
        return stacked

    def reading(self, batch: Any) -> Reading:
        """What the output layer reads at every target position, padding too, and its attention to the source."""
        source, decoder = self.encode(batch.source, batch.source_lengths), self.decoder
        target_in = self._with_word_dropout(batch.target_in)
        if is_exactly(decoder, TransformerDecoder):
            stacked = decoder.read(decoder.stack.memory(source.states, source.keep), target_in)
        else:
            state = decoder.start(source, len(batch.source))
            stacked = decoder.read(state.fixed, target_in, state.moving)
        return Reading(stacked.output, stacked.attended.get(self.decoder.alignment))

    def features(self, batch: Any) -> tuple[Float[Tensor, "tokens dim"], Int[Tensor, " tokens"]]:
        """What the output layer reads at each real target token, and these tokens; padding is left out."""
        features = self.reading(batch).features
        steps = torch.arange(batch.target_out.shape[1], device=batch.target_out.device)
        kept = steps < batch.target_lengths.unsqueeze(-1)
        return features[kept], batch.target_out[kept]

    def vocabulary(self, features: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows choices"]:
        """Logits of all target tokens: one matrix product over all rows."""
        logits: Tensor = self.decoder.readout(features)
        return logits

    def objective(self, batch: Any, smoothing: float = 0.0) -> Objective:
        """Summed loss (nats), tokens and right predictions over the real target tokens."""
        features, targets = self.features(batch)
        return objective(self.vocabulary(features), targets, smoothing)

    def forward(self, batch: Any, smoothing: float = 0.0) -> Objective:
        """The objective; wrappers such as distributed data parallel work through `forward`."""
        return self.objective(batch, smoothing)

    def _keep(self, source: Tensor, lengths: Tensor) -> Tensor | None:
        return unless_trivial(torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(-1))

    def _with_word_dropout(self, target_in: Int[Tensor, "batch steps"]) -> Int[Tensor, "batch steps"]:
        """The decoder's inputs, in training with word dropout."""
        if not self.training or self.settings.word_dropout == 0:
            return target_in
        return drop_words(target_in, self.settings.word_dropout, UNKNOWN)
