"""The choices that make a Transformer. No torch here: the command line reads them before it loads."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TransformerParts(BaseModel):
    """What all Transformers choose: the block, and how positions are known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["transformer"] = Field(default="transformer", description="a Transformer")
    dim: int = Field(default=256, ge=1, description="width of every vector between the layers")
    heads: int = Field(default=4, ge=1, description="attentions side by side; they share dim evenly")
    key_heads: int | None = Field(
        default=None, ge=1, description="grouped heads: as many keys and values; as many as heads unless given"
    )
    feed_forward_dim: int | None = Field(
        default=None, ge=1, description="hidden width of the feed-forward network; 4 · dim unless given"
    )
    activation: Literal["relu", "gelu", "swiglu"] = Field(
        default="gelu", description="of the feed-forward network; swiglu has three matrices instead of two"
    )
    norm: Literal["layer", "rms"] = Field(default="layer", description="what normalizes: LayerNorm or RMSNorm")
    norm_order: Literal["pre", "post"] = Field(
        default="pre", description="pre: before each sub-layer, and once at the end; post: after each sum (the paper's)"
    )
    position: Literal["none", "sinusoidal", "learned", "rotary", "alibi", "t5", "shaw"] = Field(
        default="sinusoidal", description="how attention knows a token's position"
    )
    context: int = Field(
        default=512, ge=1, description="how many positions learned ones know; the others know any number"
    )
    bias: bool = Field(default=True, description="whether the linear layers and LayerNorms have biases")
    initial: Literal["small", "fan_in"] = Field(
        default="small",
        description="how linear layers start: small: N(0, 0.02²), as GPT does at width 768; fan_in: N(0, 1/inputs), "
        "with which narrow layers learn sooner",
    )
    dropout: float = Field(default=0.1, ge=0, lt=1, description="on the embedding and on what each sub-layer adds")
    attention_dropout: float = Field(default=0.0, ge=0, lt=1, description="on the attention's weights")

    @property
    def hidden_dim(self) -> int:
        """Hidden width of the feed-forward network."""
        return 4 * self.dim if self.feed_forward_dim is None else self.feed_forward_dim

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_versions(cls, given: Any) -> Any:
        """Leave out two settings of earlier runs that this architecture never used, where they change nothing.

        Word vectors beside sinusoidal positions are scaled in every architecture since; such a run would be misread.
        """
        if not isinstance(given, dict):
            return given
        asked_nothing = {"window": None, "scale_embedding": False}
        old = [
            key for key, value in asked_nothing.items() if key not in cls.model_fields and given.get(key, 0) is value
        ]
        if "scale_embedding" in old and given.get("position", "sinusoidal") == "sinusoidal":
            raise ValueError(
                "this run is of an earlier version, which did not scale word vectors beside sinusoidal positions "
                "(scale_embedding: false); this one does, and would read them wrongly. Train it anew"
            )
        return {key: value for key, value in given.items() if key not in old}

    @model_validator(mode="after")
    def _divide(self) -> "TransformerParts":
        if self.dim % self.heads:
            raise ValueError(f"heads must share dim evenly; dim is {self.dim}, heads {self.heads}")
        if self.key_heads is not None and self.heads % self.key_heads:
            raise ValueError(f"key_heads must divide heads; heads is {self.heads}, key_heads {self.key_heads}")
        if self.position == "sinusoidal" and self.dim % 2:
            raise ValueError(f"sinusoidal positions come in pairs of features: dim must be even; it is {self.dim}")
        if self.position == "rotary" and self.dim // self.heads % 2:
            raise ValueError(
                f"rotary positions rotate pairs of features: dim / heads must be even; it is {self.dim // self.heads}"
            )
        return self


class CausalParts(TransformerParts):
    """The further choices of causal layers."""

    window: int | None = Field(
        default=None,
        ge=1,
        description="a sliding window: how many keys a query attends to, itself counted; all unless given",
    )


class WordParts(TransformerParts):
    """The further choices of models that embed words."""

    scale_embedding: bool | None = Field(
        default=None,
        description="word vectors times √dim, as in the paper; unless given, where positions are sinusoidal: these are "
        "of size 1 at each feature, and would drown vectors that start small",
    )

    @property
    def scales(self) -> bool:
        """Whether word vectors are multiplied by √dim."""
        return self.position == "sinusoidal" if self.scale_embedding is None else self.scale_embedding


class TransformerFields(WordParts):
    """One stack of layers over words: an encoder."""

    layers: int = Field(default=4, ge=1, description="number of layers")
    tied: bool = Field(default=True, description="one table of vectors for inputs and outputs")


class TransformerLanguageSettings(TransformerFields, CausalParts):
    """A language model over causal layers."""


class TransformerTranslatorSettings(WordParts, CausalParts):
    """An encoder, and a decoder with cross-attention to it; a window is the decoder's."""

    # A translation may be twice as long as the longest line, and ten tokens more (data.max_length, search.max_ratio).
    context: int = Field(
        default=1024, ge=1, description="how many positions learned ones know; the others know any number"
    )
    encoder_layers: int = Field(default=4, ge=1, description="layers of the encoder")
    decoder_layers: int = Field(default=4, ge=1, description="layers of the decoder")
    tied: Literal["none", "target", "all"] = Field(
        default="none",
        description="target: the output layer is the target table; all: the source uses this table as well",
    )
    word_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="in training, the share of earlier target words that the decoder reads as unknown",
    )
    alignment_layer: int | None = Field(
        default=None,
        ge=0,
        description="the decoder layer, from 0, whose attention to the source is the alignment; the last but one (or "
        "the only one) unless given",
    )

    @property
    def aligning_layer(self) -> int:
        """The decoder layer whose attention to the source is the alignment."""
        return max(0, self.decoder_layers - 2) if self.alignment_layer is None else self.alignment_layer

    @model_validator(mode="after")
    def _within(self) -> "TransformerTranslatorSettings":
        if self.aligning_layer >= self.decoder_layers:
            raise ValueError(
                f"alignment_layer counts from 0 and must be below decoder_layers ({self.decoder_layers}); it is "
                f"{self.alignment_layer}"
            )
        return self


class TransformerSequenceSettings(CausalParts):
    """Causal layers over vectors: every step attends to all steps so far."""

    kind: Literal["transformer"] = Field("transformer", description="a causal Transformer over all steps so far")
    dim: int = Field(default=64, ge=1, description="width of every vector between the layers")
    layers: int = Field(default=2, ge=1, description="number of layers")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the inputs and on what each sub-layer adds")


def vaswani2017() -> TransformerTranslatorSettings:
    """The base model of Vaswani et al. (2017): section 3, and the first line of table 3."""
    return TransformerTranslatorSettings(
        dim=512,
        heads=8,
        encoder_layers=6,
        decoder_layers=6,
        feed_forward_dim=2048,
        activation="relu",
        norm_order="post",
        position="sinusoidal",
        scale_embedding=True,
        tied="all",
        dropout=0.1,
    )
