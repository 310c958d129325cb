"""Text to ids and back: words, characters, byte-pair encoding, or a given SentencePiece model.

One contract for all: ids 0 to 3 are padding, unknown, begin and end (`regard.vocabulary`); no text is ever read as
one of them, however it is spelt, and no text that is written shows one. `Encoded.words` says which word, in the units
of `regard.data.text.units`, each piece belongs to.
"""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.data.text.units import normalize, units
from regard.errors import ConfigError, DataError, RunError, nearest
from regard.files import write_json
from regard.vocabulary import SPECIALS, UNKNOWN

FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as a tokenizer sees it.

    Attributes:
        ids: one id a piece, without begin and end marks.
        pieces: what each id stands for, as it was spelt, also where the id is unknown.
        words: index of the word (in `Tokenizer.words`) that each piece belongs to; never falling.
    """

    ids: list[int]
    pieces: list[str]
    words: list[int]


class Tokenizer(ABC):
    """Cuts text into pieces with ids, and puts it together again.

    Args:
        lower: whether upper case is folded to lower case; `words` keep the original spelling.
    """

    kind: ClassVar[str]

    def __init__(self, lower: bool = False) -> None:
        self.lower = lower

    @abstractmethod
    def __len__(self) -> int:
        """How many ids there are, the four special ones counted."""

    @abstractmethod
    def piece(self, number: int) -> str:
        """What an id stands for, to show it; a special one as <unk> and the like."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that makes this tokenizer, as JSON."""

    @abstractmethod
    def _encode(self, text: str) -> Encoded: ...

    @abstractmethod
    def _join(self, ids: list[int], spelling: dict[int, str]) -> str:
        """Text of ids without special ones, save unknown ones at the places that `spelling` knows."""

    def normalize(self, text: str) -> str:
        """What is really encoded: NFC, white space at the ends cut off, lower case if so chosen."""
        text = normalize(text)
        return normalize(text.lower()) if self.lower else text

    def encode(self, text: str) -> Encoded:
        """Ids, pieces and words of a text; a text of white space alone has none.

        Raises:
            DataError: the text holds half of a surrogate pair.
        """
        return self._encode(self.normalize(text))

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        """The text of some ids. Special ids show nothing.

        Args:
            ids: as a model wrote them; begin, end and padding may be among them.
            unknown: spellings for the unknown ids, in order (an empty one leaves it out). Without them they
                show nothing.
        """
        spellings = iter(unknown)
        kept: list[int] = []
        spelling: dict[int, str] = {}
        for number in ids:
            if not 0 <= number < len(self):
                raise DataError(f"id {number} is not in this vocabulary of {len(self)} entries")
            if number >= len(SPECIALS):
                kept.append(number)
            elif number == UNKNOWN and (word := next(spellings, "")):
                spelling[len(kept)] = word
                kept.append(number)
        return self._join(kept, spelling)

    def words(self, text: str) -> list[str]:
        """Words of a text in their original spelling, case kept: what `Encoded.words` counts."""
        return [unit.text for unit in units(normalize(text))]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What the ids stand for, to show them; `visible` makes spaces seen."""
        return [self.piece(number) for number in ids]

    def fingerprint(self) -> str:
        """SHA-256 of all that makes this tokenizer: two with the same one give the same ids."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``tokenizer.json`` into a folder; the same tokenizer gives the same bytes."""
        return write_json(Path(folder) / FILE, self._content())

    def _content(self) -> dict[str, Any]:
        return {"kind": self.kind, "lower": self.lower, **self.state()}


def visible(piece: str) -> str:
    """A piece with its spaces shown as ▁, for labels."""
    return piece.replace(" ", "▁")


def _kinds() -> dict[str, Any]:
    # These modules build on this one.
    from regard.data.tokenizers.bpe import BpeTokenizer
    from regard.data.tokenizers.listed import CharacterTokenizer, WordTokenizer
    from regard.data.tokenizers.sentencepiece import SentencePieceTokenizer

    return {made.kind: made for made in (WordTokenizer, CharacterTokenizer, BpeTokenizer, SentencePieceTokenizer)}


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
    kinds = _kinds()
    if kind not in kinds:
        raise ConfigError(f"no tokenizer is named {kind!r}.{nearest(kind, kinds)}")
    if size <= len(SPECIALS):
        raise ConfigError(
            f"a vocabulary of {size} has no room beside the {len(SPECIALS)} special entries; give 5 or more"
        )
    return kinds[kind].train(texts, size, lower=lower)


def load_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """Read what `Tokenizer.save` wrote.

    Raises:
        RunError: there is no such file, or it is damaged.
    """
    path = Path(folder) / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _kinds()[content.pop("kind")].load(Path(folder), content)
    except FileNotFoundError as error:
        raise RunError(f"{folder} holds no tokenizer: {error.filename or path} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} is damaged or of another version ({type(error).__name__}: {error})") from error
