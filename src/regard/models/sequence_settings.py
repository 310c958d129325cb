"""The settings of every kind of sequence model; `kind` says which. No torch here."""

from typing import Annotated

from pydantic import Field

from regard.models.dnc_settings import DNCSettings
from regard.models.fixed_settings import FixedSettings
from regard.models.key_value_settings import KeyValueSettings
from regard.models.lstm_settings import LSTMSettings
from regard.models.lstmn_settings import LSTMNSettings
from regard.models.ntm_settings import NTMSettings
from regard.models.transformer_sequence_settings import TransformerSequenceSettings

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
