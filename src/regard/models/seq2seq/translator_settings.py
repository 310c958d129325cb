"""The settings of every kind of translator; `kind` says which. No torch here."""

from typing import Annotated

from pydantic import Field

from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.transformer.settings import TransformerTranslatorSettings

TranslatorSettings = Annotated[RecurrentSettings | TransformerTranslatorSettings, Field(discriminator="kind")]
