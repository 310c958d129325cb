"""The choices that make a recurrent translator. No torch here: the command line reads them before it loads."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class RecurrentSettings(BaseModel):
    """A bidirectional recurrent encoder and a recurrent decoder, with attention to it or without."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["recurrent"] = Field(default="recurrent", description="what reads and writes")
    cell: Literal["gru", "lstm"] = Field(default="lstm", description="the recurrent cell of encoder and decoder")
    embedding_dim: int = Field(default=256, ge=1, description="width of the word vectors")
    encoder_dim: int = Field(
        default=256, ge=1, description="width of the encoder in each direction; its states are twice as wide"
    )
    encoder_layers: int = Field(default=1, ge=1, description="layers of the encoder")
    decoder_dim: int | None = Field(
        default=None,
        ge=1,
        description="width of the decoder's state; twice encoder_dim unless given, which dot and cosine need",
    )
    decoder_layers: int = Field(default=1, ge=1, description="layers of the decoder")
    readout_dim: int | None = Field(
        default=None, ge=1, description="width of what the output layer reads; the word vectors' width unless given"
    )
    order: Literal["luong", "bahdanau"] = Field(
        default="luong",
        description="luong: step, then attend from the new state; bahdanau: attend from the state before, then step",
    )
    input_feeding: bool = Field(
        default=False, description="luong only: what was read at a step is part of the next input"
    )
    attention: str = Field(
        default="additive", description='a score\'s name; "none": a fixed context instead of attention'
    )
    attention_dim: int = Field(
        default=256, ge=1, description="hidden width of scores that have one (additive, location_aware)"
    )
    attention_options: dict[str, Any] = Field(
        default={}, description="further options of the score, e.g. rank or positions"
    )
    normalizer: str = Field(default="softmax", description="what makes weights of the scores")
    normalizer_options: dict[str, Any] = Field(default={}, description="options of the normalizer, e.g. temperature")
    window: Literal["none", "local-m", "local-p"] = Field(
        default="none", description="local attention: around the step's own number (m) or a predicted position (p)"
    )
    radius: float = Field(
        default=10.0, gt=0, description="D, a local window's reach to either side, in source positions"
    )
    coverage: bool = Field(
        default=False,
        description="the score uses the sum of all earlier weights instead of the last ones (location_aware)",
    )
    fixed_context: Literal["every_step", "start"] = Field(
        default="every_step",
        description='with attention "none": the source\'s last state is read at every step, or starts the decoder only',
    )
    tied: Literal["none", "target", "all"] = Field(
        default="none",
        description="target: the output layer is the target table; all: the source uses this table as well",
    )
    dropout: float = Field(
        default=0.2, ge=0, lt=1, description="on word vectors, encoder states, [state; context] and readout"
    )
    word_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="in training, the share of earlier target words that the decoder reads as unknown",
    )
    teacher_forcing: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="in training, the share of inputs that are right words, not the model's own choices",
    )

    @property
    def state_dim(self) -> int:
        """Width of the decoder's state: that of the encoder's states unless given."""
        return self.decoder_dim if self.decoder_dim is not None else 2 * self.encoder_dim

    @property
    def attends(self) -> bool:
        """Whether there is an attention at all."""
        return self.attention != "none"

    @model_validator(mode="after")
    def _fit(self) -> "RecurrentSettings":
        if self.input_feeding and self.order == "bahdanau":
            raise ValueError("input_feeding belongs to order: luong; in bahdanau's the context enters each step anyway")
        if self.coverage and self.attention != "location_aware":
            raise ValueError(
                f"only the score location_aware uses coverage; set attention: location_aware (it is {self.attention!r})"
            )
        if not self.attends and (self.window != "none" or self.input_feeding):
            raise ValueError("without attention (attention: none) there is no window and no input_feeding")
        if self.tied != "none" and self.readout_dim not in (None, self.embedding_dim):
            raise ValueError(
                f"a tied output layer reads vectors as wide as its table: readout_dim must be embedding_dim "
                f"({self.embedding_dim}) or left out; it is {self.readout_dim}"
            )
        return self
