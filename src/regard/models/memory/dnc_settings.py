"""The choices that make a differentiable neural computer. No torch here: the command line reads them first."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


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
