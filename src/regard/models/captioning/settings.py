"""The choices that make a captioner. No torch here."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

AttentionKind = Literal["soft", "sample", "gumbel"]


class Convolutions(BaseModel):
    """A small network of convolutions, trained with the rest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["convolutions"] = Field("convolutions", description="The encoder of the image.")
    channels: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(32, 32, 64, 64), min_length=1, description="Of each 3 × 3 convolution, the first one first."
    )
    strides: tuple[Annotated[int, Field(ge=1, le=4)], ...] = Field(
        default=(2, 1, 2, 1),
        description="Of each convolution. Their product is a cell's side in pixels: the grid has size / product cells "
        "a side.",
    )

    @model_validator(mode="after")
    def _paired(self) -> "Convolutions":
        if len(self.channels) != len(self.strides):
            raise ValueError(f"{len(self.channels)} channels for {len(self.strides)} strides; give one of each a layer")
        return self


class Backbone(BaseModel):
    """A network of torchvision or timm, which the extra `vision` brings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["backbone"] = Field("backbone", description="The encoder of the image.")
    name: str = Field(description="Its library and its name in it, as in torchvision:resnet18 or timm:resnet18.")
    layer: str | None = Field(
        default=None,
        description="The module whose output is the grid, by its name in the network, as in layer3; null: the last "
        "one whose output is a grid.",
    )
    weights: Path | None = Field(
        default=None, description="Its weights, a file .safetensors or .pth; null: drawn anew. None are downloaded."
    )
    frozen: bool = Field(default=True, description="Whether its weights stay as they are.")


class Features(BaseModel):
    """Features that were made before: the data name a folder of them, and no image is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["features"] = Field("features", description="The encoder of the image.")
    width: int = Field(ge=1, description="Numbers of each cell.")


Encoder = Annotated[Convolutions | Backbone | Features, Field(discriminator="kind")]


class CaptionerSettings(BaseModel):
    """An encoder of images into a grid of annotations, and an LSTM that attends to it before each word."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder: Encoder = Field(default=Convolutions(kind="convolutions"), description="The encoder of the image.")
    look: AttentionKind = Field(
        default="soft",
        description="soft: the mean over all cells; sample: one cell, drawn, learned by REINFORCE; gumbel: one cell, "
        "drawn, with the gradient of the softmax (straight through).",
    )
    at_use: Literal["largest", "drawn"] = Field(
        default="largest",
        description="The cell of hard attention at inference: the likeliest one, or one that is drawn.",
    )
    annotation_dim: int = Field(default=128, ge=1, description="Width of a cell's annotation, D.")
    attention_dim: int = Field(default=64, ge=1, description="Width of the scores' hidden layer.")
    embedding_dim: int = Field(default=64, ge=1, description="Width of a word's vector, m.")
    state_dim: int = Field(default=128, ge=1, description="Width of the LSTM, n.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="On annotations and on what the output reads.")
    word_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Share of the earlier words that the decoder reads as unknown in training."
    )

    @model_validator(mode="after")
    def _hard(self) -> "CaptionerSettings":
        if self.look == "soft" and self.at_use == "drawn":
            raise ValueError("at_use: drawn is of hard attention (look: sample or gumbel); soft reads the mean")
        return self
