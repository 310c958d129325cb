"""Text to ids and back: what all tokenizers share, whatever their units.

One contract for all: ids 0 to 3 are padding, unknown, BOS and EOS (`regard.vocabulary`); no text is ever read as
one of them, however it is spelt, and no text that is written shows one. `Encoded.words` says which word, in the units
of `regard.data.text.units`, each token belongs to.
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
from regard.errors import DataError
from regard.files import write_json
from regard.vocabulary import SPECIALS, UNKNOWN

FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as ids and tokens.

    Attributes:
        ids: one id per token, without BOS and EOS.
        tokens: what each id stands for, as it was spelt, also where the id is unknown.
        words: index of the word (in `Tokenizer.words`) that each token belongs to; non-decreasing.
    """

    ids: list[int]
    tokens: list[str]
    words: list[int]


class Tokenizer(ABC):
    """Splits text into tokens with ids, and joins it again.

    Args:
        lower: whether upper case is folded to lower case; `words` keep the original spelling.
    """

    kind: ClassVar[str]

    def __init__(self, lower: bool = False) -> None:
        self.lower = lower

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], size: int, *, lower: bool = False) -> "Tokenizer":
        """Learn a vocabulary from texts: at most `size` entries, the four special ones counted."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, state: dict[str, Any]) -> "Tokenizer":
        """The tokenizer of a saved `state`, which also names `lower`."""

    @abstractmethod
    def __len__(self) -> int:
        """How many ids there are, the four special ones counted."""

    @abstractmethod
    def token(self, number: int) -> str:
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
        """The text that is encoded: NFC, white space at the ends cut off, lower case if so chosen."""
        text = normalize(text)
        return normalize(text.lower()) if self.lower else text

    def encode(self, text: str) -> Encoded:
        """Ids, tokens and words of a text; a text of white space alone has none.

        Raises:
            DataError: the text holds half of a surrogate pair.
        """
        return self._encode(self.normalize(text))

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        """The text of some ids. Special ids show nothing.

        Args:
            ids: as a model wrote them; BOS, EOS and padding may be among them.
            unknown: spellings for the unknown ids, in order (an empty one leaves it out). Without them they
                show nothing.

        Raises:
            DataError: an id is not in the vocabulary.
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

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """What the ids stand for, to show them; `visible` makes spaces visible."""
        return [self.token(number) for number in ids]

    def fingerprint(self) -> str:
        """SHA-256 of all that makes this tokenizer: two with the same one give the same ids."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``tokenizer.json`` into a folder; the same tokenizer gives the same bytes."""
        return write_json(Path(folder) / FILE, self._content())

    def _content(self) -> dict[str, Any]:
        return {"kind": self.kind, "lower": self.lower, **self.state()}


def visible(token: str) -> str:
    """A token with its spaces shown as ▁, for labels."""
    return token.replace(" ", "▁")
