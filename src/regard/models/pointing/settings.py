"""The choices that make a pointer network. No torch here."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class LSTMEncoderSettings(BaseModel):
    """An LSTM that reads the points one by one, as in the paper."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["lstm"] = Field("lstm", description="What reads the points.")
    layers: int = Field(default=1, ge=1, description="LSTMs one upon the other.")


class TransformerEncoderSettings(BaseModel):
    """Self-attention over the points, without positions: their order does not matter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["transformer"] = Field("transformer", description="What reads the points.")
    layers: int = Field(default=3, ge=1, description="Blocks of self-attention and feed-forward, pre-norm.")
    heads: int = Field(default=8, ge=1, description="Heads of each block; they divide the width.")


class PointerSettings(BaseModel):
    """An encoder of points, and a decoder that chooses among them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["pointer", "fixed"] = Field(
        default="pointer",
        description="pointer: choices are the points themselves, as many as there are; fixed: the decoder "
        "chooses a number from a list of fixed length, without attention (the baseline).",
    )
    width: int = Field(default=128, ge=1, description="Width of all vectors.")
    reader: Annotated[LSTMEncoderSettings | TransformerEncoderSettings, Field(discriminator="kind")] = Field(
        default=LSTMEncoderSettings(kind="lstm"), description="What reads the points."
    )

    @model_validator(mode="after")
    def _dividing(self) -> "PointerSettings":
        if isinstance(self.reader, TransformerEncoderSettings) and self.width % self.reader.heads:
            raise ValueError(f"{self.reader.heads} heads do not divide the width {self.width}")
        return self
