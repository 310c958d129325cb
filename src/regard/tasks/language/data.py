"""Running text as a run needs it: its vocabulary, windows to train on, and the text that is held out."""

from collections.abc import Callable
from pathlib import Path

from regard.data.language.stream import TokenStream, WindowBatch, WindowBatches
from regard.data.language.streams import read_streams
from regard.data.messages import Information
from regard.data.settings import Part
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer
from regard.tasks.core.task import Prepared
from regard.tasks.language.settings import LanguageSettings

Text = Prepared[Tokenizer, WindowBatch, TokenStream]
"""A run's text, ready to train on: windows of the training text, and the text that chooses a checkpoint."""


def prepare_text(settings: LanguageSettings, saved: Path | None, say: Callable[[str], None]) -> Text:
    """Read the text, learn or load the vocabulary, and make windows.

    Args:
        settings: of the run.
        saved: where the run keeps its vocabulary, if it has one already.
        say: called with how much text there is.

    Raises:
        DataError: a file cannot be read, or a part of the text is empty.
    """
    data = settings.data
    known = None if saved is None else load_tokenizer(saved)
    parts: tuple[Part, ...] = ("training", "validation")
    tokenizer, streams = read_streams(data, known, say, parts)
    for part in parts:
        say(Information(f"{part}: {description(streams[part])}"))
    batches = WindowBatches(streams["training"].ids, data.window, data.batch, settings.seed)
    return Prepared(tokenizer, batches, streams["validation"])


def description(stream: TokenStream) -> str:
    """How many tokens a text has, and how many of them are unknown, in words."""
    share = stream.unknown / max(1, len(stream.ids))
    return f"{len(stream.ids):,} tokens, line ends included; {stream.unknown:,} of them unknown ({share:.1%})"
