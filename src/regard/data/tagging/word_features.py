"""The features of a word: itself, its beginnings and endings, and its shape, so that unseen words are not all alike."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from regard.files import read_json, write_json
from regard.vocabulary import SPECIALS, UNKNOWN, most_common

FILE = "words.json"

# The first character says what a feature is, so that an ending is never taken for a word.
_WORD, _BEGINNING, _ENDING, _SHAPE = "=", "<", ">", "~"
_CLASSES = {"Lu": "X", "Lt": "X", "Ll": "x", "Lo": "o", "Lm": "o", "Nd": "d", "Nl": "d", "No": "d", "Mn": "", "Mc": ""}


class WordFeatures:
    """Numbers for the features of words; the special ids are those of all vocabularies here.

    Args:
        entries: the features that are known, by number from 4 on.
        affix: characters of a beginning or an ending at most.

    Raises:
        ValueError: an entry is named twice.
    """

    def __init__(self, entries: Iterable[str], affix: int) -> None:
        self.entries, self.affix = list(entries), affix
        self._ids = {entry: number for number, entry in enumerate(self.entries, len(SPECIALS))}
        if len(self._ids) != len(self.entries):
            raise ValueError("a vocabulary names a feature twice")

    @classmethod
    def train(cls, words: Iterable[str], *, least: int, affix: int) -> "WordFeatures":
        """All features that some words have this often; ties go by text.

        Args:
            words: of the training, each as often as it stands there.
            least: a rarer feature is left out, so that training meets unknown ones as well.
            affix: characters of a beginning or an ending at most.
        """
        counts = Counter(name for word in words for name in features(word, affix))
        return cls(most_common(counts, sum(count >= least for count in counts.values())), affix)

    def __len__(self) -> int:
        """How many ids there are, the special ones counted."""
        return len(SPECIALS) + len(self.entries)

    def ids(self, word: str) -> list[int]:
        """First that of the word itself, or the unknown one; then those of its other features that are known."""
        own, *others = features(word, self.affix)
        known = [self._ids[name] for name in others if name in self._ids]
        return [self._ids.get(own, UNKNOWN), *known]

    def knows(self, word: str) -> bool:
        """Whether training had the word itself often enough."""
        return self.ids(word)[0] != UNKNOWN

    def save(self, folder: Path) -> None:
        """Write `words.json` into a folder."""
        write_json(folder / FILE, {"affix": self.affix, "entries": self.entries})

    @classmethod
    def load(cls, folder: Path) -> "WordFeatures":
        """Read what `save` wrote.

        Raises:
            RunError: there is no such file, or it is damaged.
        """
        return read_json(folder / FILE, lambda kept: cls(**kept), "which words it knows")


def features(word: str, affix: int) -> Iterator[str]:
    """The names of a word's features, itself first; all but the shape in lower case."""
    lower = word.lower()
    yield _WORD + lower
    for length in range(1, min(affix, len(lower)) + 1):
        yield _BEGINNING + lower[:length]
        yield _ENDING + lower[-length:]
    yield _SHAPE + shape(word)


def shape(word: str) -> str:
    """A word's letters by their kind, a run of one kind as one: `McDonald's` is `XxXx'x`, `1990s` is `dx`.

    X stands for capitals, x for small letters, o for letters without case, d for digits; other characters for
    themselves.
    """
    kinds = (_CLASSES.get(unicodedata.category(character), character) for character in word)
    return "".join(kind for kind, _ in groupby(kind for kind in kinds if kind))
