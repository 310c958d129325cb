"""Tokenizers whose vocabulary is a plain list: words and characters."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tokenizers import Regex, pre_tokenizers

from regard.data.text.units import Spacing, Unit, units, word_indices
from regard.data.tokenizers.base import Encoded, Tokenizer
from regard.vocabulary import SPECIALS, UNKNOWN, most_common

# An entry of the word vocabulary is a word, or, where the space before it is not as `Spacing` expects, one of these
# followed by a word. The word joiner is a unit by itself in any text, so that longer entries that begin with it are
# unambiguous.
_SPACE = " "
_GLUE = "\u2060"


class _Listed(Tokenizer):
    def __init__(self, entries: Iterable[str], lower: bool = False) -> None:
        super().__init__(lower)
        self.entries = list(entries)
        self._ids = {entry: number for number, entry in enumerate(self.entries, len(SPECIALS))}
        if len(self._ids) != len(self.entries):
            raise ValueError("a vocabulary names an entry twice")

    @classmethod
    def _count(cls, texts: Iterable[str], size: int, lower: bool, cut: Callable[[str], Iterable[str]]) -> Tokenizer:
        reader = cls((), lower)
        counts = Counter(entry for text in texts for entry in cut(reader.normalize(text)))
        return cls(most_common(counts, size - len(SPECIALS)), lower)

    @classmethod
    def load(cls, folder: Path, state: dict[str, Any]) -> Tokenizer:
        """The tokenizer of a saved state."""
        return cls(**state)

    def state(self) -> dict[str, Any]:
        """All that makes this tokenizer, as JSON: its entries by id."""
        return {"entries": self.entries}

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.entries)

    def token(self, number: int) -> str:
        """What an id stands for."""
        return SPECIALS[number] if number < len(SPECIALS) else self.entries[number - len(SPECIALS)]


class WordTokenizer(_Listed):
    """Words and marks, one id each; every Han character is a word.

    The text comes back exactly, runs of white space as one space, where all of its words are known.
    """

    kind = "words"

    @classmethod
    def train(cls, texts: Iterable[str], size: int, *, lower: bool = False) -> Tokenizer:
        """Learn the most frequent words, up to `size` entries with the four special ones."""
        return cls._count(texts, size, lower, lambda text: [entry for _, entry in _entries(text)])

    def _encode(self, text: str) -> Encoded:
        found = _entries(text)
        # A known word at an unusual place is still better known by the word than not at all.
        ids = [self._ids.get(entry, self._ids.get(unit.text, UNKNOWN)) for unit, entry in found]
        return Encoded(ids, [unit.text for unit, _ in found], list(range(len(found))))

    def token(self, number: int) -> str:
        """The word of an id, without the mark of its spacing."""
        return super().token(number) if number < len(SPECIALS) else _plain(self.entries[number - len(SPECIALS)])

    def _join(self, ids: list[int], spelling: dict[int, str]) -> str:
        spacing = Spacing()
        parts: list[str] = []
        for place, number in enumerate(ids):
            entry = spelling[place] if number == UNKNOWN else self.entries[number - len(SPECIALS)]
            word = entry if number == UNKNOWN else _plain(entry)
            spaced = spacing.guess(word) if word == entry else entry[0] == _SPACE
            spacing.take(word, spaced)
            parts += [" ", word] if spaced and parts else [word]
        return "".join(parts)


def _entries(text: str) -> list[tuple[Unit, str]]:
    spacing, found = Spacing(), []
    for unit in units(text):
        expected = spacing.guess(unit.text)
        spacing.take(unit.text, unit.spaced)
        mark = "" if unit.spaced == expected else _SPACE if unit.spaced else _GLUE
        found.append((unit, mark + unit.text))
    return found


def _plain(entry: str) -> str:
    return entry[1:] if len(entry) > 1 and entry[0] in (_SPACE, _GLUE) else entry


_graphemes = pre_tokenizers.Split(Regex(r"\X"), "isolated")


class CharacterTokenizer(_Listed):
    """What a reader calls a character (a letter with its accents, a whole emoji), spaces among them."""

    kind = "characters"

    @classmethod
    def train(cls, texts: Iterable[str], size: int, *, lower: bool = False) -> Tokenizer:
        """Learn the most frequent characters, up to `size` entries with the four special ones."""
        return cls._count(texts, size, lower, lambda text: [token for token, _ in _graphemes.pre_tokenize_str(text)])

    def _encode(self, text: str) -> Encoded:
        found = _graphemes.pre_tokenize_str(text)
        tokens = [token for token, _ in found]
        ids = [self._ids.get(token, UNKNOWN) for token in tokens]
        return Encoded(ids, tokens, word_indices([span for _, span in found], text))

    def _join(self, ids: list[int], spelling: dict[int, str]) -> str:
        return "".join(
            spelling[place] if number == UNKNOWN else self.entries[number - len(SPECIALS)]
            for place, number in enumerate(ids)
        )
