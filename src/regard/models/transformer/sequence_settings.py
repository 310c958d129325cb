"""The choices that make a Transformer over sequences. No torch here: the command line reads them before it loads."""

from typing import Literal

from pydantic import Field

from regard.models.transformer.settings import CausalParts


class TransformerSequenceSettings(CausalParts):
    """Causal layers over vectors: every step looks back at all steps so far."""

    kind: Literal["transformer"] = Field("transformer", description="a causal Transformer over all steps so far")
    dim: int = Field(default=64, ge=1, description="width of every vector between the layers")
    layers: int = Field(default=2, ge=1, description="number of layers")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the inputs and on what each sub-layer adds")
