"""The words of Transformers: a vector an id."""

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.transformer.settings import WordParts


class Embedding(nn.Embedding):
    """A vector an id; times √dim where the settings say so (Vaswani et al. 2017, section 3.4)."""

    def __init__(self, settings: WordParts, vocabulary: int) -> None:
        super().__init__(vocabulary, settings.dim)
        self.scale = math.sqrt(settings.dim) if settings.scales else 1.0
        nn.init.normal_(self.weight, std=settings.dim**-0.5 if settings.scales else 0.02)

    def forward(self, ids: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """The vectors of some ids."""
        vectors = super().forward(ids)
        return vectors if self.scale == 1 else vectors * self.scale
