"""A Transformer encoder as what reads the words of a classifier: every word attends to those on both sides."""

import math

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.transformer.stack import Stacked
from regard.models.text.classifier_settings import TransformerClassifierSettings
from regard.models.transformer.build import transformer_stack


class BidirectionalTransformer(nn.Module):
    """Reads a sentence at once, where a `models.text.reader.Reader` goes from left to right.

    Vectors of another width than the layers' own come in through a matrix. They are of length 1 at first, and those of
    sinusoidal positions of √(dim/2): beside these, words are taken times √width, as by a Transformer's `Embedding`.

    Args:
        settings: the choices.
        inputs: width of the inputs.
    """

    def __init__(self, settings: TransformerClassifierSettings, inputs: int) -> None:
        super().__init__()
        self.width = settings.dim
        self.scale = math.sqrt(inputs) if settings.position == "sinusoidal" else 1.0
        self.widen = nn.Identity() if inputs == settings.dim else nn.Linear(inputs, settings.dim, bias=False)
        self.stack = transformer_stack(settings, settings.layers, causal=False)

    def forward(self, inputs: Float[Tensor, "batch time inputs"], real: Bool[Tensor, "batch time"]) -> Stacked:
        """A state at each vector, and each layer's attention; padding is masked out."""
        stacked: Stacked = self.stack(self.widen(inputs) * self.scale, keep=None if bool(real.all()) else real)
        return stacked
