"""The settings of every kind of sequence model; `kind` says which. No torch here."""

from typing import Annotated

from pydantic import Field

from regard.models.lstm_settings import LSTMSettings
from regard.models.ntm_settings import NTMSettings

SequenceSettings = Annotated[LSTMSettings | NTMSettings, Field(discriminator="kind")]
