"""The language models by kind: what reads the text in them; each is imported at its first use."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from regard.models.text.language import LanguageModel
    from regard.models.transformer.language import TransformerLanguageModel

    Model: TypeAlias = LanguageModel | TransformerLanguageModel
else:
    Model: TypeAlias = Any


def build_language_model(settings: Any, vocabulary: int) -> Model:
    """The language model that the settings say, with fresh weights.

    Args:
        settings: one of `LanguageModelSettings`; `settings.kind` says what reads.
        vocabulary: how many ids there are.
    """
    if settings.kind == "transformer":
        from regard.models.transformer.language import TransformerLanguageModel

        return TransformerLanguageModel(settings, vocabulary)
    from regard.models.text.language import LanguageModel

    return LanguageModel(settings, vocabulary)
