"""The choices that make a long short-term memory-network. No torch here: the command line reads them first."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LSTMNSettings(BaseModel):
    """A long short-term memory-network: each step reads the tapes of the steps before it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["lstmn"] = Field(default="lstmn", description="a long short-term memory-network (Cheng et al. 2016)")
    width: int = Field(default=100, ge=1, description="width of the hidden state and of the memory")
    attention: int = Field(default=50, ge=1, description="width of the score of its own past")
    layers: int = Field(default=1, ge=1, description="layers, one upon the other, each with its own tapes")
    tape: int | None = Field(
        default=None, ge=1, description="slots that a step looks back at, the last ones; null: all of them"
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="between layers")
