"""The choices that make a Neural Turing machine. No torch here: the command line reads them before it loads."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class NTMSettings(BaseModel):
    """A Neural Turing machine: a controller, a memory, and heads that move over it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["ntm"] = Field("ntm", description="a Neural Turing machine (Graves 2014)")
    controller: Literal["lstm", "feed_forward"] = Field(default="lstm", description="what reads and steers the heads")
    width: int = Field(default=100, ge=1, description="width of the controller")
    layers: int = Field(default=1, ge=1, description="layers of the controller")
    slots: int = Field(default=128, ge=1, le=65_536, description="N, places of the memory")
    slot_dim: int = Field(default=20, ge=1, description="M, width of a place")
    read_heads: int = Field(default=1, ge=1, description="heads that read")
    write_heads: int = Field(default=1, ge=1, description="heads that write")
    reach: int = Field(default=1, ge=0, description="the furthest shift of a head in one step, to either side")
    memory: float = Field(
        default=1e-6,
        allow_inf_nan=False,
        description="what the whole memory holds before the first step (a constant: Collier & Beel 2018)",
    )
