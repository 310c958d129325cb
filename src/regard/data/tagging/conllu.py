"""Treebanks in CoNLL-U: the words of each sentence and a tag for each (universaldependencies.org/format.html).

A sentence is a block of lines, ended by a blank one. A word is a line of ten columns between tabs, numbered from 1.
Lines of several words written as one (`2-3`) and of words that nobody wrote (`8.1`) say nothing of a tag and are passed
over, as are comments.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.tagging.settings import Column
from regard.data.text.lines import iterate_lines
from regard.data.text.units import normalize
from regard.errors import DataError, quoted

COLUMNS: dict[Column, int] = {"upos": 3, "xpos": 4, "deprel": 7}
"""Where each kind of tag stands, from 0."""

_FORM, _WIDTH, _NONE = 1, 10, "_"
_RANGE = re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")


class TaggedSentence(NamedTuple):
    """One sentence.

    Attributes:
        words: as they are written; one may hold a space, as a number of French may.
        tags: one per word.
        place: its file and first line.
    """

    words: list[str]
    tags: list[str]
    place: str


def read_conllu(paths: Iterable[Path], column: Column = "upos") -> list[TaggedSentence]:
    """All sentences of some files, one after the other.

    Args:
        paths: UTF-8, plain or gzip.
        column: which tags.

    Raises:
        DataError: a file or a line of it cannot be used, a word has no such tag, or there are no sentences.
    """
    paths = list(paths)
    found = [sentence for path in paths for sentence in _sentences(path, column)]
    if not found:
        raise DataError(f"there are no sentences in {', '.join(map(str, paths))}")
    return found


def _sentences(path: Path, column: Column) -> Iterator[TaggedSentence]:
    words: list[str] = []
    tags: list[str] = []
    first = 0
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line.strip():
            if words:
                yield TaggedSentence(words, tags, f"{path}, line {first}")
            words, tags = [], []
        elif not line.startswith("#"):
            first = first if words else number
            cells = line.split("\t")
            place = f"{path}, line {number}"
            if len(cells) != _WIDTH:
                raise DataError(f"{place}: {len(cells)} columns between tabs; CoNLL-U has {_WIDTH}")
            if _RANGE.fullmatch(cells[0]):
                continue
            if cells[0] != str(len(words) + 1):
                raise DataError(
                    f"{place}: the word is numbered {quoted(cells[0])}; {len(words) + 1} comes next (a blank line ends "
                    "a sentence)"
                )
            words.append(_filled(normalize(cells[_FORM]), "word", place))
            tags.append(_tag(cells[COLUMNS[column]], column, place))
    if words:  # the blank line after the last sentence may be missing
        yield TaggedSentence(words, tags, f"{path}, line {first}")


def _filled(text: str, name: str, place: str) -> str:
    if not text:
        raise DataError(f"{place}: the {name} is empty")
    return text


def _tag(text: str, column: Column, place: str) -> str:
    tag = _filled(text.strip(), f"tag ({column})", place)
    if tag == _NONE:
        others = " or ".join(name for name in COLUMNS if name != column)
        raise DataError(f"{place}: the word has no tag in the column {column}; choose another one: column={others}")
    return tag
