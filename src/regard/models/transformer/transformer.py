"""The Transformer in its three buildings (Vaswani et al. 2017). What differs is who may see whom:

    building                 looks at itself          looks at the source
    TransformerEncoder       everything               -                      states of a whole text
    TransformerLanguageModel up to itself (causal)    -                      the next piece
    TransformerTranslator    source: everything       target: the source     the next target piece
                             target: up to itself

The block is the same one everywhere (`layers/transformer/block.py`); `transformer_stack` builds it from the settings.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attended import Attended
from regard.attention.modules.heads import CrossHeads, Heads, SelfHeads
from regard.attention.parts.position import position
from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_unmodified
from regard.layers.decoder import State, Step
from regard.layers.dropout import hide_words
from regard.layers.objective import Objective, objective
from regard.layers.transformer.block import Block
from regard.layers.transformer.cache import Cache
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Memory, Stack, Stacked
from regard.layers.transformer.step import forget
from regard.models.transformer.embedding import Embedding
from regard.models.transformer.settings import (
    TransformerFields,
    TransformerLanguageSettings,
    TransformerParts,
    TransformerTranslatorSettings,
)
from regard.models.transformer.step import one_word
from regard.vocabulary import PADDING, UNKNOWN

SHAW_CLIP = 16  # the largest distance with a vector of its own (Shaw et al. 2018, section 4.1)


class TransformerEncoder(nn.Module):
    """Every piece sees every other.

    Args:
        settings: the choices.
        vocabulary: how many ids there are.
    """

    def __init__(self, settings: TransformerFields, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = Embedding(settings, vocabulary)
        self.stack = transformer_stack(settings, settings.layers, causal=False)

    def read(self, ids: Int[Tensor, "batch positions"], keep: Bool[Tensor, "batch positions"] | None = None) -> Stacked:
        """The states, and where each layer looked."""
        stacked: Stacked = self.stack(self.embedding(ids), keep=_needed(_real(ids) if keep is None else keep))
        return stacked

    def forward(
        self, ids: Int[Tensor, "batch positions"], keep: Bool[Tensor, "batch positions"] | None = None
    ) -> Float[Tensor, "batch positions dim"]:
        """A state a piece.

        Args:
            ids: the pieces.
            keep: True where one is real; unless given, everything but id 0 is.
        """
        output: Tensor = self.read(ids, keep).output
        return output


class TransformerLanguageModel(nn.Module):
    """Every piece sees those up to itself, and tells the next.

    It is a decoder without a source (`layers.decoder`), so that the search of translators writes.

    Args:
        settings: the choices.
        vocabulary: how many ids there are.
    """

    alignment: str | None = None

    def __init__(self, settings: TransformerLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = Embedding(settings, vocabulary)
        self.stack = transformer_stack(settings, settings.layers, causal=True, window=settings.window)
        self.readout = _readout(settings, vocabulary, self.embedding if settings.tied else None)

    def start(self, memory: None, batch: int) -> State:
        """The state before the first piece; there is no source that it could start from."""
        forget(self)
        return State((), self.stack.start(batch))

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Read n pieces. Id 0 is padding on either side: not seen, not counted.

        Where a subclass has a `read` of its own, that reads them, and `attended` is empty.
        """
        if (found := one_word(self, inputs, state.moving)) is not None:
            return Step(found.logits, State(state.fixed, found.cache), found.attended)
        if not is_unmodified(self, TransformerLanguageModel, methods=("read",)):
            logits, moving = self.read(inputs, state.moving)
            return Step(logits, State(state.fixed, moving), {})
        stacked = self._stacked(inputs, state.moving)
        return Step(self.logits(stacked.output), State(state.fixed, stacked.cache), stacked.attended)

    def read(self, ids: Int[Tensor, "batch time"], state: Any) -> tuple[Float[Tensor, "batch time vocabulary"], Any]:
        """The logits after each piece, and the cache after the last; `state` is what `start(…).moving` or this gave."""
        stacked = self._stacked(ids, state)
        return self.logits(stacked.output), stacked.cache

    def logits(self, hidden: Float[Tensor, "*lead dim"]) -> Float[Tensor, "*lead vocabulary"]:
        """How likely each piece is to be the next."""
        logits: Tensor = self.readout(hidden)
        return logits

    def forward(
        self,
        ids: Int[Tensor, "batch positions"],
        smoothing: float = 0.0,
        documents: Int[Tensor, "batch positions"] | None = None,
    ) -> Objective:
        """The loss of each piece of some windows but the first, given those before it in the window.

        Args:
            ids: as many in each row.
            smoothing: of the labels.
            documents: equal numbers where pieces belong to one text; texts do not see each other. A mark that ends one
                text and begins the next has the number of the next: it is told from the text before it.

        Raises:
            ConfigError: documents for a subclass that has a `start` or a `read` of its own, which know none.
        """
        inputs, targets = ids[:, :-1], ids[:, 1:]
        if is_unmodified(self, TransformerLanguageModel, methods=("start", "read")):
            read = None if documents is None else documents[:, :-1]
            logits = self.logits(self.stack(self.embedding(inputs), documents=read).output)
        elif documents is None:
            logits, _ = self.read(inputs, self.start(None, len(ids)).moving)
        else:
            raise ConfigError(
                f"{type(self).__name__} has a `start` or a `read` of its own, which knows no packed documents: leave "
                "documents= out, or give it a `forward` that takes them"
            )
        return objective(logits.flatten(0, 1), targets.flatten(), smoothing)

    def _stacked(self, ids: Tensor, cache: Any) -> Stacked:
        stacked: Stacked = self.stack(self.embedding(ids), keep=_padding(ids), cache=cache)
        return stacked


class TransformerDecoder(nn.Module):
    """The target's side of a translator: every piece sees those up to itself, and the source.

    Args:
        settings: the translator's.
        vocabulary: number of target pieces.
    """

    def __init__(self, settings: TransformerTranslatorSettings, vocabulary: int) -> None:
        super().__init__()
        self.alignment = f"cross {settings.aligning_layer}"
        self.embedding = Embedding(settings, vocabulary)
        self.stack = transformer_stack(
            settings, settings.decoder_layers, causal=True, across=True, window=settings.window
        )
        self.readout = _readout(settings, vocabulary, None if settings.tied == "none" else self.embedding)

    def start(self, memory: "Source", batch: int) -> State:
        """The state before the first piece: the source, its keys projected once, and an empty cache."""
        return State(self.stack.memory(memory.states, memory.keep), self.stack.start(batch))

    def step(self, state: State, inputs: Int[Tensor, "batch n"]) -> Step:
        """Read n pieces and score the next one after each. Id 0 is padding on either side: not seen, not counted."""
        stacked = self.stack(self.embedding(inputs), keep=_padding(inputs), cache=state.moving, memory=state.fixed)
        return Step(self.readout(stacked.output), State(state.fixed, stacked.cache), stacked.attended)

    def read(self, memory: Memory, target_in: Int[Tensor, "batch steps"], cache: Cache | None = None) -> Stacked:
        """All steps at once. Padding on the right needs no mask: nobody that is real sees it.

        Args:
            memory: of the source, as `start` makes it.
            target_in: what is read.
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
    """What every target position gave, and where it looked at the source."""

    features: Float[Tensor, "batch steps dim"]
    attended: Attended | None


class TransformerTranslator(nn.Module):
    """Read the source with an encoder, write the target with a decoder that looks at it.

    `decoder` follows `layers.decoder.Decoder`: `decoder.start(translator.encode(source, lengths), batch)`, then `step`.

    Args:
        settings: the choices.
        source_vocabulary: number of source pieces, the padding (0) included.
        target_vocabulary: number of target pieces.

    Raises:
        ConfigError: one table is asked for two vocabularies of different sizes.
    """

    def __init__(self, settings: TransformerTranslatorSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        if settings.tied == "all" and source_vocabulary != target_vocabulary:
            raise ConfigError(
                f"one table for both languages (tied: all) needs one vocabulary; the source has {source_vocabulary} "
                f"pieces, the target {target_vocabulary}. Share the vocabulary, or take tied: target"
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
        """The source's states, and where each layer of the encoder looked."""
        table = self.decoder.embedding if self.embedding is None else self.embedding
        stacked: Stacked = self.encoder(table(source), keep=self._keep(source, lengths))
        return stacked

    def reading(self, batch: Any) -> Reading:
        """What the output layer reads at every target position, padding too, and where each looked."""
        source, decoder = self.encode(batch.source, batch.source_lengths), self.decoder
        target_in = self._partly_hidden(batch.target_in)
        if is_unmodified(decoder, TransformerDecoder, methods=("start",)):
            stacked = decoder.read(decoder.stack.memory(source.states, source.keep), target_in)
        else:
            state = decoder.start(source, len(batch.source))
            stacked = decoder.read(state.fixed, target_in, state.moving)
        return Reading(stacked.output, stacked.attended.get(self.decoder.alignment))

    def features(self, batch: Any) -> tuple[Float[Tensor, "tokens dim"], Int[Tensor, " tokens"]]:
        """What the output layer reads at each real target piece, and these pieces; padding is left out."""
        features = self.reading(batch).features
        steps = torch.arange(batch.target_out.shape[1], device=batch.target_out.device)
        kept = steps < batch.target_lengths.unsqueeze(-1)
        return features[kept], batch.target_out[kept]

    def vocabulary(self, features: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows choices"]:
        """Logits of all target pieces: one matrix product over all rows."""
        logits: Tensor = self.decoder.readout(features)
        return logits

    def objective(self, batch: Any, smoothing: float = 0.0) -> Objective:
        """Sums of losses (nats), of pieces and of right first choices over the real target pieces."""
        features, targets = self.features(batch)
        return objective(self.vocabulary(features), targets, smoothing)

    def forward(self, batch: Any, smoothing: float = 0.0) -> Objective:
        """The objective; wrappers such as distributed data parallel work through `forward`."""
        return self.objective(batch, smoothing)

    def _keep(self, source: Tensor, lengths: Tensor) -> Tensor | None:
        return _needed(torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(-1))

    def _partly_hidden(self, target_in: Int[Tensor, "batch steps"]) -> Int[Tensor, "batch steps"]:
        """What the decoder hears of the earlier words: in training not all of them."""
        if not self.training or self.settings.word_dropout == 0:
            return target_in
        return hide_words(target_in, self.settings.word_dropout, UNKNOWN)


# --- the parts ------------------------------------------------------------------------------------------------------


def _readout(settings: TransformerParts, vocabulary: int, shared: Embedding | None) -> nn.Linear:
    """Logits, by the embedding's own table where it is shared."""
    readout = nn.Linear(settings.dim, vocabulary, bias=False)
    if shared is None:
        nn.init.normal_(readout.weight, std=0.02)
    else:
        readout.weight = shared.weight
    return readout


def transformer_stack(
    settings: TransformerParts, layers: int, *, causal: bool, across: bool = False, window: int | None = None
) -> Stack:
    """As many blocks as `layers`, as the settings say; see `Stack` for `causal` and `window`."""
    norm = partial(_norm, settings)
    blocks = []
    for _ in range(layers):
        attention = SelfHeads(settings.dim, settings.heads, **_heads(settings), score=_score(settings))
        looking = CrossHeads(settings.dim, settings.heads, **_heads(settings)) if across else None
        feed_forward = FeedForward(settings.dim, settings.hidden_dim, settings.activation, settings.bias)
        order = settings.norm_order
        blocks.append(Block(attention, feed_forward, norm, across=looking, order=order, dropout=settings.dropout))
    stack = Stack(
        blocks,
        causal=causal,
        position=_position(settings, causal),
        window=window,
        norm=norm() if settings.norm_order == "pre" else None,
        dropout=settings.dropout,
    )
    _initialize(stack, layers, settings)
    return stack


def _heads(settings: TransformerParts) -> dict[str, Any]:
    return {"key_heads": settings.key_heads, "bias": settings.bias, "dropout": settings.attention_dropout}


def _norm(settings: TransformerParts) -> nn.Module:
    if settings.norm == "rms":
        return nn.RMSNorm(settings.dim, eps=1e-6)
    return nn.LayerNorm(settings.dim, bias=settings.bias)


def _score(settings: TransformerParts) -> Any:
    """Shaw's positions are part of the score, and each layer has its own."""
    if settings.position == "shaw":
        return position("shaw", dim=settings.dim // settings.heads, clip=SHAW_CLIP)
    return "scaled_dot"


def _position(settings: TransformerParts, causal: bool) -> Any:
    """The other kinds belong to the stack, and all layers share them."""
    sizes: dict[str, dict[str, Any]] = {
        "sinusoidal": {"dim": settings.dim},
        "learned": {"count": settings.context, "dim": settings.dim},
        "rotary": {"dim": settings.dim // settings.heads, "convention": "half"},
        "alibi": {"heads": settings.heads},
        "t5": {"heads": settings.heads, "bidirectional": not causal},
    }
    return position(settings.position, **sizes[settings.position]) if settings.position in sizes else None


def _initialize(stack: Stack, layers: int, settings: TransformerParts) -> None:
    """Linear layers from N(0, 0.02²) (Radford et al. 2018, section 4.1) or N(0, 1/inputs), biases 0.

    In pre-norm stacks what is added to the residual stream is divided by √(number of additions) at first (Radford et
    al. 2019, section 2.3), so that the stream does not grow with the depth.
    """
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=_spread(module, settings))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    if settings.norm_order == "pre":
        for module in stack.modules():
            if isinstance(module, Heads | FeedForward):
                spread = _spread(module.output, settings) / math.sqrt(2 * layers)
                nn.init.normal_(module.output.weight, std=spread)


def _spread(linear: nn.Linear, settings: TransformerParts) -> float:
    return 0.02 if settings.initial == "small" else float(linear.in_features**-0.5)


def _real(ids: Tensor) -> Tensor:
    return ids != PADDING


def _padding(ids: Tensor) -> Tensor | None:
    """Which ids are real, None where all are."""
    traced = torch.compiler.is_compiling()
    return _real(ids) if traced or not bool(ids.all()) else None  # padding is 0


def _needed(keep: Tensor) -> Tensor | None:
    """None where nothing is padding: then nothing has to be hidden. A traced call cannot look."""
    return keep if torch.compiler.is_compiling() or not bool(keep.all()) else None
