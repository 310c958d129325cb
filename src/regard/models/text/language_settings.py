"""The choices that make a language model, by the kind of what reads the text. No torch here."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from regard.models.memory.settings import LSTMNSettings, LSTMSettings
from regard.models.transformer.settings import TransformerLanguageSettings


class LanguageFields(BaseModel):
    """What a language model has whose text is read by one vector after the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embedding_dim: int = Field(default=128, ge=1, description="width of a token's vector")
    tied: bool = Field(default=True, description="one table of vectors for inputs and outputs")
    input_dropout: float = Field(default=0.3, ge=0, lt=1, description="on the vectors that are read")
    output_dropout: float = Field(default=0.3, ge=0, lt=1, description="on the states that predict the next token")


class LSTMLanguageSettings(LanguageFields, LSTMSettings):
    """A language model over a plain LSTM."""


class LSTMNLanguageSettings(LanguageFields, LSTMNSettings):
    """A language model over a long short-term memory-network."""


LanguageModelSettings = Annotated[
    LSTMLanguageSettings | LSTMNLanguageSettings | TransformerLanguageSettings, Field(discriminator="kind")
]
