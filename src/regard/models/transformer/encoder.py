"""Encoder-only (Devlin et al. 2019): every token attends to every other; the states of a whole text."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.layers.transformer.stack import Stacked
from regard.models.transformer.build import transformer_stack
from regard.models.transformer.embedding import Embedding
from regard.models.transformer.padding import padding_mask, unless_trivial
from regard.models.transformer.settings import TransformerFields


class TransformerEncoder(nn.Module):
    """Every token attends to every other.

    Args:
        settings: the choices.
        vocabulary: how many ids there are.
    """

    def __init__(self, settings: TransformerFields, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = Embedding(settings, vocabulary)
        self.stack = transformer_stack(settings, settings.layers, causal=False)

    def read(self, ids: Int[Tensor, "batch positions"], keep: Bool[Tensor, "batch positions"] | None = None) -> Stacked:
        """The states, and each layer's attention."""
        keep = padding_mask(ids) if keep is None else unless_trivial(keep)
        stacked: Stacked = self.stack(self.embedding(ids), keep=keep)
        return stacked

    def forward(
        self, ids: Int[Tensor, "batch positions"], keep: Bool[Tensor, "batch positions"] | None = None
    ) -> Float[Tensor, "batch positions dim"]:
        """A state a token, `(batch, positions, dim)`.

        Args:
            ids: of the tokens.
            keep: True where one is real; unless given, everything but id 0 is.
        """
        output: Tensor = self.read(ids, keep).output
        return output
