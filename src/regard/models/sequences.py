"""The models of sequences by kind; each is imported when it is asked for."""

from importlib import import_module
from typing import Any

from regard.errors import ConfigError, nearest
from regard.layers.sequence import SequenceModel

KINDS: dict[str, tuple[str, str]] = {
    "lstm": ("regard.models.lstm", "LSTMSequence"),
    "fixed": ("regard.models.fixed", "FixedContext"),
    "key_value": ("regard.models.key_value", "KeyValue"),
    "dnc": ("regard.models.dnc", "DifferentiableNeuralComputer"),
    "lstmn": ("regard.models.lstmn", "LSTMN"),
    "ntm": ("regard.models.ntm", "NeuralTuringMachine"),
    "transformer": ("regard.models.transformer_sequence", "TransformerSequence"),
}
"""Module and class of each kind: `Class(settings, inputs, outputs)`."""


def build(settings: Any, inputs: int, outputs: int) -> SequenceModel:
    """The model that the settings say, with fresh weights.

    Args:
        settings: those of one kind, e.g. `LSTMSettings`; `settings.kind` says which.
        inputs: width of what it reads at each step.
        outputs: width of what it gives at each step.

    Raises:
        ConfigError: an unknown kind.
    """
    if settings.kind not in KINDS:
        raise ConfigError(f"no model of sequences is named {settings.kind!r}.{nearest(settings.kind, KINDS)}")
    module, name = KINDS[settings.kind]
    model: SequenceModel = getattr(import_module(module), name)(settings, inputs, outputs)
    return model
