"""The choices that make a masked language model. No torch here."""

from regard.models.transformer.settings import TransformerFields


class MaskedModelSettings(TransformerFields):
    """A Transformer encoder that predicts masked tokens."""
