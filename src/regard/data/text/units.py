r"""Where words begin and end, and where a space stands between them by default.

A unit is a run of letters, marks and digits; or one Han character; or a run of kana; or one other grapheme (a
punctuation mark, a symbol, a whole emoji). Every tokenizer of the library counts words in these units, so that
alignments made with different tokenizers can be compared, and every gold link points to them.

Because ``<``, ``/`` and ``>`` are units of their own, no unit of a text can ever spell ``</s>`` or ``<unk>``.
"""

import functools
import unicodedata
from typing import NamedTuple

from tokenizers import Regex, pre_tokenizers

from regard.data.settings import WordUnit
from regard.errors import DataError, quoted

_SPACE = r"[\s\x1c-\x1f]"  # what Python's str.strip() and str.isspace() call white
_LETTERS = r"[[\p{L}\p{M}\p{N}\x{200c}\x{200d}]&&[^\p{Han}\p{Hiragana}\p{Katakana}]]+"
UNIT = rf"\p{{Han}}\p{{M}}*|[\p{{Hiragana}}\p{{Katakana}}ー]+|{_LETTERS}|(?!{_SPACE})\X"
SPACES = rf"{_SPACE}+"

_split = pre_tokenizers.Split(Regex(rf"{SPACES}|{UNIT}"), "isolated")


class Unit(NamedTuple):
    """One word of a text.

    Attributes:
        text: its characters.
        start: index of its first character in the text.
        spaced: whether white space stands before it.
    """

    text: str
    start: int
    spaced: bool


def normalize(text: str) -> str:
    """Unicode NFC, without white space at the ends: what every tokenizer reads.

    Raises:
        DataError: the text holds half of a surrogate pair, or a byte that is not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text {quoted(text)} holds half of a surrogate pair or a byte that is not UTF-8"
        ) from error
    return unicodedata.normalize("NFC", text).strip()


def units(text: str) -> list[Unit]:
    """Words of a normalised text, in order."""
    found = []
    spaced = False
    for token, (start, _) in _split.pre_tokenize_str(text):
        if token.isspace():
            spaced = True
            continue
        found.append(Unit(token, start, spaced))
        spaced = False
    return found


class Spacing:
    """Guesses, unit by unit, whether a space stands before the next one, as Western and Chinese type is set.

    No space between Han characters; none before a full stop or after an opening bracket; a straight quote opens and
    closes in turn; a hyphen without a space before has none after. A guess depends on the units so far alone, so a
    reader that has the same units guesses the same, and only exceptions need to be written down.
    """

    def __init__(self) -> None:
        self._before = "start"
        self._tight = True
        self._after_number = False
        self._quoting = False

    def guess(self, unit: str) -> bool:
        """Whether a space is expected before this unit."""
        kind = _kind(unit)
        if self._tight or kind in ("east asian", "closing", "point", "hyphen", "apostrophe"):
            return False
        if kind == "number":
            return not (self._before == "currency" or (self._before == "point" and self._after_number))
        if kind == "quote":
            return not self._quoting
        return True

    def take(self, unit: str, spaced: bool) -> None:
        """Go past this unit, which really had a space before it or not."""
        kind = _kind(unit)
        opens = spaced or self._tight
        self._after_number = kind == "point" and self._before == "number" and not spaced
        if kind == "quote":
            self._quoting = opens
        self._tight = (
            kind in ("east asian", "bracket", "apostrophe")
            or (kind == "hyphen" and not spaced)
            or (kind in ("quote", "opening") and opens)
        )
        self._before = kind


_MARKS = {
    **dict.fromkeys(",;!?…%‰°′″", "closing"),
    **dict.fromkeys(".:", "point"),
    **dict.fromkeys("/_~\\·", "hyphen"),
    **dict.fromkeys("'’", "apostrophe"),
    '"': "quote",
    **dict.fromkeys("¿¡#@", "bracket"),
}
_CATEGORIES = {"Ps": "bracket", "Pi": "opening", "Pe": "closing", "Pf": "closing", "Pd": "hyphen", "Sc": "currency"}


@functools.lru_cache(maxsize=100_000)
def _kind(unit: str) -> str:
    first = unit[0]
    if first in _MARKS:
        return _MARKS[first]
    category = unicodedata.category(first)
    if unicodedata.east_asian_width(first) in "WF" and category[0] in "LPN" and not "\uac00" <= first <= "\ud7a3":
        return "east asian"
    if category[0] == "N":
        return "number"
    return _CATEGORIES.get(category, "word")


def is_unspaced(text: str) -> bool:
    """Whether a text begins in a script that sets no spaces between words: Han, kana, full-width marks."""
    return bool(text) and _kind(text[0]) == "east asian"


def split_words(text: str, counted: WordUnit) -> list[str]:
    """The words that links of this kind count, case kept: units, or what stands between white space."""
    text = normalize(text)
    return text.split() if counted == "whitespace" else [unit.text for unit in units(text)]


def whitespace_words(text: str) -> list[int]:
    """For each unit of a text, in order, the word between white space that it is in, counted from 0."""
    words: list[int] = []
    for unit in units(normalize(text)):
        words.append(words[-1] + unit.spaced if words else 0)
    return words


def word_indices(spans: list[tuple[int, int]], text: str) -> list[int]:
    """For each token of a text (its first character and the one after its last), the word that its first letter is in.

    White space belongs to the word that follows, and a token that reaches over several words to the first of them.
    """
    ends = [unit.start + len(unit.text) for unit in units(text)]
    words = []
    word = 0
    for start, end in spans:
        blank = len(text[start:end]) - len(text[start:end].lstrip())
        first = min(start + blank, max(end - 1, start))
        while word < len(ends) - 1 and ends[word] <= first:
            word += 1
        words.append(word)
    return words
