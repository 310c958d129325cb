"""The choices that make a plain LSTM. No torch here: the command line reads them before it loads."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LSTMSettings(BaseModel):
    """A plain LSTM: what it remembers is in its state alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["lstm"] = Field("lstm", description="a plain LSTM, without a memory to attend to")
    width: int = Field(default=100, ge=1, description="width of each layer's state")
    layers: int = Field(default=1, ge=1, description="layers, one upon the other")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="between layers")
