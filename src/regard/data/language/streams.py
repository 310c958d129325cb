"""A run's text as three streams of ids: from memory, or from a folder on the disk."""

from collections.abc import Callable
from pathlib import Path

from regard.data.language.held_out import read_parts, text_size, vocabulary_lines
from regard.data.language.settings import LanguageData
from regard.data.language.stream import TokenStream
from regard.data.language.token_files import token_files
from regard.data.settings import PARTS, Part
from regard.data.text.documents import iterate_text
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import train_tokenizer
from regard.errors import DataError


def read_streams(
    settings: LanguageData, tokenizer: Tokenizer | None, report: Callable[[str], None], parts: tuple[Part, ...] = PARTS
) -> tuple[Tokenizer, dict[Part, TokenStream]]:
    """The tokenizer of a text, and some of its parts.

    Args:
        settings: which text.
        tokenizer: of the run; None: learn one from what is trained on.
        report: called with messages on the progress of a folder of ids.
        parts: those that are wanted.

    Raises:
        ConfigError: no text is named.
        DataError: a file cannot be read, a part has no text, or the folder of ids is of another text.
    """
    if settings.tokens is not None:
        known, streams = token_files(settings, tokenizer, report)
        return known, {part: streams[part] for part in parts}
    lines = read_parts(settings)
    if tokenizer is None:
        learned = vocabulary_lines(settings, text_size(settings))
        tokenizer = train_tokenizer(settings.tokenizer, learned, settings.vocabulary_size, lower=settings.lower)
    return tokenizer, {part: TokenStream.of(lines[part], tokenizer, borders(settings)) for part in parts}


def read_other(settings: LanguageData, paths: list[Path], tokenizer: Tokenizer) -> TokenStream:
    """Other text, read as that of the run is.

    Raises:
        DataError: a file cannot be read, or there are no lines.
    """
    stream = TokenStream.of(iterate_text(paths, settings.fields), tokenizer, borders(settings))
    if not len(stream):
        raise DataError(f"there is no text in {', '.join(map(str, paths))}")
    return stream


def borders(settings: LanguageData) -> bool:
    """Whether documents end with a token of their own."""
    return settings.documents != "running"
