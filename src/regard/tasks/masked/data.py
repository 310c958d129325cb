"""Text as a run of a masked language model needs it: vocabulary, windows to train on, and gaps to fill."""

from collections.abc import Callable
from pathlib import Path

import torch

from regard.data.masked.batches import MaskedBatch, MaskedBatches, read_text, token_stream
from regard.data.masked.settings import Masking
from regard.data.messages import Information
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
from regard.tasks.core.task import Prepared
from regard.tasks.masked.settings import MaskedSettings
from regard.vocabulary import UNKNOWN

_SEED = 0
"""Of the gaps of every validation and test, so that all runs are tested on the same ones."""


Text = Prepared[Tokenizer, MaskedBatch, list[MaskedBatch]]
"""A run's text, ready to train on: windows of the training text, and gaps of the text that chooses a checkpoint."""


def prepare_text(settings: MaskedSettings, saved: Path | None, say: Callable[[str], None]) -> Text:
    """Read the text, learn or load the vocabulary, and make windows and gaps.

    Args:
        settings: of the run.
        saved: where the run keeps its vocabulary, if it has one already.
        say: called with how much text there is.

    Raises:
        DataError: a file cannot be read, or a part of the text is empty.
    """
    data = settings.data
    parts = read_text(data)
    if saved is None:
        tokenizer = train_tokenizer(data.tokenizer, parts["training"], data.vocabulary_size, lower=data.lower)
    else:
        tokenizer = load_tokenizer(saved)
    streams = {name: token_stream(parts[name], tokenizer) for name in ("training", "validation")}
    for name, stream in streams.items():
        say(Information(f"{name}: {description(stream)}"))
    batches = MaskedBatches(streams["training"], data.window, data.batch, data.masking, len(tokenizer), settings.seed)
    return Prepared(tokenizer, batches, gaps(settings, data.asked, streams["validation"], len(tokenizer)))


def description(stream: torch.Tensor) -> str:
    """How many tokens a text has, and how many of them are unknown, in words."""
    unknown = int((stream == UNKNOWN).sum())
    return f"{len(stream):,} tokens, line ends included; {unknown:,} of them unknown ({unknown / len(stream):.1%})"


def gaps(settings: MaskedSettings, asked: float, stream: torch.Tensor, vocabulary: int) -> list[MaskedBatch]:
    """A whole text in windows, with every token that is to be predicted masked; the same gaps for the same text."""
    masking = Masking(share=asked, masked=1.0, replaced=0.0)
    batches = MaskedBatches(stream, settings.data.window, settings.data.batch, masking, vocabulary, _SEED)
    return batches.whole()
