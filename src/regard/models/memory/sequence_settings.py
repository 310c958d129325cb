"""The settings of every kind of sequence model; `kind` says which. No torch here."""

from typing import Annotated

from pydantic import Field

from regard.models.memory.dnc_settings import DNCSettings
from regard.models.memory.fixed_settings import FixedSettings
from regard.models.memory.key_value_settings import KeyValueSettings
from regard.models.memory.lstm_settings import LSTMSettings
from regard.models.memory.lstmn_settings import LSTMNSettings
from regard.models.memory.ntm_settings import NTMSettings
from regard.models.transformer.sequence_settings import TransformerSequenceSettings

SequenceSettings = Annotated[
    DNCSettings
    | FixedSettings
    | KeyValueSettings
    | LSTMNSettings
    | LSTMSettings
    | NTMSettings
    | TransformerSequenceSettings,
    Field(discriminator="kind"),
]
