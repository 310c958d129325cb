"""The choices of every kind of sequence model; `kind` says which. No torch here: the command line reads them first."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.models.transformer.settings import TransformerSequenceSettings


class LSTMSettings(BaseModel):
    """A plain LSTM: what it remembers is in its state alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["lstm"] = Field("lstm", description="a plain LSTM, without a memory to attend to")
    width: int = Field(default=100, ge=1, description="width of each layer's state")
    layers: int = Field(default=1, ge=1, description="layers, one upon the other")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="between layers")


class FixedSettings(BaseModel):
    """An LSTM reads, another answers, and one vector is all that passes between them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["fixed"] = Field("fixed", description="an encoder whose last state alone is read when answering")
    width: int = Field(default=64, ge=1, description="width of the encoder's and of the decoder's state")
    mark: int = Field(
        default=-1,
        description="the input that is above ½ where the question begins, and with it the decoder; -1: the last one",
    )


class KeyValueSettings(BaseModel):
    """An LSTM that attends to its own earlier outputs, one part of which is the key and the other the value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["key_value"] = Field("key_value", description="key-value attention over the past (Daniluk 2017)")
    width: int = Field(default=64, ge=1, description="width of a key and of a value; the LSTM's state is both")
    attention_dim: int = Field(default=64, ge=1, description="width of the additive score")


class LSTMNSettings(BaseModel):
    """A long short-term memory-network: each step reads the tapes of the steps before it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["lstmn"] = Field(default="lstmn", description="a long short-term memory-network (Cheng et al. 2016)")
    width: int = Field(default=100, ge=1, description="width of the hidden state and of the memory")
    attention: int = Field(default=50, ge=1, description="width of the score of its own past")
    layers: int = Field(default=1, ge=1, description="layers, one upon the other, each with its own tapes")
    tape: int | None = Field(
        default=None, ge=1, description="slots that a step attends to, the last ones; null: all of them"
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="between layers")


class NTMSettings(BaseModel):
    """A Neural Turing machine: a controller, a memory, and heads that move over it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["ntm"] = Field("ntm", description="a Neural Turing machine (Graves 2014)")
    controller: Literal["lstm", "feed_forward"] = Field(default="lstm", description="what reads and steers the heads")
    width: int = Field(default=100, ge=1, description="width of the controller")
    layers: int = Field(default=1, ge=1, description="layers of the controller")
    slots: int = Field(default=128, ge=1, le=65_536, description="N, slots of the memory")
    slot_dim: int = Field(default=20, ge=1, description="M, width of a slot")
    read_heads: int = Field(default=1, ge=1, description="heads that read")
    write_heads: int = Field(default=1, ge=1, description="heads that write")
    reach: int = Field(default=1, ge=0, description="the furthest shift of a head in one step, to either side")
    memory: float = Field(
        default=1e-6,
        allow_inf_nan=False,
        description="what the whole memory holds before the first step (a constant: Collier & Beel 2018)",
    )


class DNCSettings(BaseModel):
    """A controller, and a memory that knows which of its slots are free and in what order they were written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["dnc"] = Field("dnc", description="a differentiable neural computer (Graves et al. 2016)")
    controller: Literal["lstm", "feed_forward"] = Field(default="lstm", description="what the controller is")
    width: int = Field(default=100, ge=1, description="width of the controller's state")
    layers: int = Field(default=1, ge=1, description="layers of the controller, one upon the other")
    slots: int = Field(default=16, ge=1, le=65_536, description="N, the slots of the memory")
    slot_dim: int = Field(default=20, ge=1, description="W, width of a slot")
    read_heads: int = Field(default=1, ge=1, description="R, the heads that read; one writes")
    free_gates: bool = Field(
        default=True, description="whether read heads may free what they have read; without, a slot is used once"
    )


SequenceSettings = Annotated[
    DNCSettings
    | FixedSettings
    | KeyValueSettings
    | LSTMNSettings
    | LSTMSettings
    | NTMSettings
    | TransformerSequenceSettings,
    Field(discriminator="kind"),
]
