"""Tokenizers by name: words, characters, byte-pair encoding, or a given SentencePiece model."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from regard.data.tokenizers.base import FILE, Tokenizer
from regard.data.tokenizers.bpe import BpeTokenizer
from regard.data.tokenizers.listed import CharacterTokenizer, WordTokenizer
from regard.data.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.errors import ConfigError, RunError, nearest
from regard.vocabulary import SPECIALS

_KINDS: dict[str, type[Tokenizer]] = {
    made.kind: made for made in (WordTokenizer, CharacterTokenizer, BpeTokenizer, SentencePieceTokenizer)
}


def train_tokenizer(kind: str, texts: Iterable[str], size: int, *, lower: bool = False) -> Tokenizer:
    """Learn a vocabulary from texts. Order of the texts, hash seed and threads change nothing: ties go by text.

    Args:
        kind: "words", "characters" or "bpe".
        texts: lines to learn from.
        size: entries at most, the four special ones counted.
        lower: whether upper case is folded to lower case.

    Raises:
        ConfigError: an unknown kind, "sentencepiece" (such a model is given, not trained here), or a size below 5.
    """
    if kind not in _KINDS:
        raise ConfigError(f"no tokenizer is named {kind!r}.{nearest(kind, _KINDS)}")
    if size <= len(SPECIALS):
        raise ConfigError(
            f"a vocabulary of {size} has no room beside the {len(SPECIALS)} special entries; give 5 or more"
        )
    return _KINDS[kind].train(texts, size, lower=lower)


def load_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """Read what `Tokenizer.save` wrote.

    Raises:
        RunError: there is no such file, or it is damaged.
    """
    path = Path(folder) / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _KINDS[content.pop("kind")].load(Path(folder), content)
    except FileNotFoundError as error:
        raise RunError(f"{folder} holds no tokenizer: {error.filename or path} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} is damaged or of another version ({type(error).__name__}: {error})") from error
