"""The choices that make a model of one fixed context. No torch here: the command line reads them before it loads."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class FixedSettings(BaseModel):
    """An LSTM reads, another answers, and one vector is all that passes between them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["fixed"] = Field("fixed", description="an encoder whose last state alone is read when answering")
    width: int = Field(default=64, ge=1, description="width of the encoder's and of the decoder's state")
    mark: int = Field(
        default=-1,
        description="the input that is above ½ where the question begins, and with it the decoder; -1: the last one",
    )
