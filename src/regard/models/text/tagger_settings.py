"""The choices that make a tagger. No torch here."""

from pydantic import Field

from regard.models.transformer.settings import TransformerParts


class TaggerSettings(TransformerParts):
    """A Transformer encoder over words, and a choice at each."""

    layers: int = Field(default=2, ge=1, description="number of layers")
    word_dropout: float = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="share of words that training replaces with unknown; endings and shape remain",
    )
    input_dropout: float = Field(default=0.2, ge=0, lt=1, description="on the words' vectors")
    output_dropout: float = Field(default=0.2, ge=0, lt=1, description="on the states before the choice")
