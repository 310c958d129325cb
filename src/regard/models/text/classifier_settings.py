"""The choices that make a classifier of sentences, by the kind of what reads them. No torch here."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.models.memory.settings import LSTMNSettings, LSTMSettings
from regard.models.transformer.settings import TransformerParts

Pooling = Literal["mean", "max", "query"]


class ClassifierFields(BaseModel):
    """What every classifier has, whatever reads the words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embedding_dim: int = Field(default=64, ge=1, description="width of a word")
    pooling: tuple[Pooling, ...] = Field(
        default=("mean",),
        min_length=1,
        description="what makes one vector of a sentence's states, side by side: their mean, their maximum, or what "
        "learned queries read of them",
    )
    queries: int = Field(default=1, ge=1, description="learned queries, for the pooling of that name")
    words_too: bool = Field(default=False, description="pool each word's own vector beside its state")
    word_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of words that training replaces with unknown"
    )
    input_dropout: float = Field(default=0.3, ge=0, lt=1, description="on the words' vectors")
    output_dropout: float = Field(default=0.3, ge=0, lt=1, description="on the sentence's vector")


class LSTMClassifierSettings(ClassifierFields, LSTMSettings):
    """A classifier over a plain LSTM."""


class LSTMNClassifierSettings(ClassifierFields, LSTMNSettings):
    """A classifier over a long short-term memory-network."""


class TransformerClassifierSettings(ClassifierFields, TransformerParts):
    """A classifier over a Transformer encoder, in which every word attends to those on both sides."""

    layers: int = Field(default=2, ge=1, description="number of layers")


ClassifierSettings = Annotated[
    LSTMClassifierSettings | LSTMNClassifierSettings | TransformerClassifierSettings, Field(discriminator="kind")
]
