"""The translators by kind; each is imported at its first use."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.errors import ConfigError, nearest
from regard.layers.decoder import Decoder

KINDS: dict[str, tuple[str, str]] = {
    "recurrent": ("regard.models.seq2seq.recurrent", "RecurrentTranslator"),
    "transformer": ("regard.models.transformer.translator", "TransformerTranslator"),
}
"""Module and class of each kind: `Class(settings, source_vocabulary, target_vocabulary)`."""


@runtime_checkable
class Model(Protocol):
    """What a translator's model offers, be it one of the `KINDS` or several as one (`tasks.translation.ensemble`)."""

    @property
    def decoder(self) -> Decoder:
        """The decoder that the search steps through."""
        ...

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """The memory that the decoder starts from."""
        ...

    def eval(self) -> Any:
        """Put the model into evaluation mode."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """All weights."""
        ...


def build_translator(settings: Any, source_vocabulary: int, target_vocabulary: int) -> Any:
    """The translator that the settings say, with fresh weights: a Module whose `forward(batch, smoothing)` is its
    `Objective`, and which translates as `Model` says.

    Args:
        settings: those of one kind, e.g. `RecurrentSettings`; `settings.kind` says which.
        source_vocabulary: number of source words, the padding (0) included.
        target_vocabulary: number of target words.

    Raises:
        ConfigError: an unknown kind, or settings that do not fit together or the vocabularies.
    """
    if settings.kind not in KINDS:
        raise ConfigError(f"no translator is named {settings.kind!r}.{nearest(settings.kind, KINDS)}")
    module, name = KINDS[settings.kind]
    return getattr(import_module(module), name)(settings, source_vocabulary, target_vocabulary)
