"""The choices that make a key-value attention. No torch here: the command line reads them before it loads."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class KeyValueSettings(BaseModel):
    """An LSTM that looks back at its own outputs, of which one part is found and the other is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["key_value"] = Field("key_value", description="key-value attention over the past (Daniluk 2017)")
    width: int = Field(default=64, ge=1, description="width of a key and of a value; the LSTM's state is both")
    attention_dim: int = Field(default=64, ge=1, description="width of the additive score")
