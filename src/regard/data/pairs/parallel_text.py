"""Pairs of a sentence and its translation, from the three kinds of file."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.settings import WordUnit
from regard.data.text.lines import iterate_lines, read_lines
from regard.data.text.units import split_words
from regard.errors import DataError, quoted

Link = tuple[int, int]
Links = frozenset[Link]


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence, its translation, and where they were read.

    Attributes:
        source: text that is read.
        target: text that is written.
        origin: file (or maker) that the pair comes from, for messages.
        line: line number there, from 1.
        links: sure gold links (source word, target word), counted from 0; None if unknown.
        possible: links that are acceptable too, a superset of `links`; None if unknown.
        counted: what the links count: the words of `regard.data.text.units` ("tokenizer"), or what stands between white
            space.
    """

    source: str
    target: str
    origin: str
    line: int
    links: Links | None = None
    possible: Links | None = None
    counted: WordUnit = "tokenizer"

    @property
    def place(self) -> str:
        """File and line, as messages name it."""
        return f"{self.origin}, line {self.line}"


def read_pairs(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> list[Pair]:
    """Two files in which line i translates line i. Empty lines stay, so that the pairing cannot shift.

    Raises:
        DataError: the files differ in their number of lines; both are named with their counts.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise DataError(
            f"{source} has {len(sources)} lines and {target} has {len(targets)}; line i of one must translate line i "
            "of the other, so both need the same number"
        )
    origin = str(Path(source))
    return [Pair(one, other, origin, line) for line, (one, other) in enumerate(zip(sources, targets, strict=True), 1)]


def read_tsv(path: str | os.PathLike[str], separator: str = "\t", columns: Sequence[int] = (1, 2)) -> list[Pair]:
    """Lines of columns; those that are not asked for (a licence, an attribution) are left alone.

    Args:
        path: the file.
        separator: what stands between two columns.
        columns: which columns are source and target, from 1.

    Raises:
        DataError: a line has too few columns.
    """
    return list(iterate_tsv(path, separator, columns))


def iterate_tsv(path: str | os.PathLike[str], separator: str = "\t", columns: Sequence[int] = (1, 2)) -> Iterator[Pair]:
    """The pairs of `read_tsv` one by one, for files larger than memory.

    Raises:
        DataError: a line has too few columns.
    """
    origin = str(Path(path))
    source, target = columns
    between = "tab" if separator == "\t" else f"separator {separator!r}"
    for number, line in enumerate(iterate_lines(path), 1):
        cells = line.split(separator)
        if len(cells) < max(source, target):
            there = f"no {between}" if len(cells) == 1 else f"{len(cells)} columns"
            raise DataError(
                f"{origin}, line {number}: {there}; expected the source in column {source} and the target in column "
                f"{target}, with a {between} between columns; got {quoted(line)}"
            )
        yield Pair(cells[source - 1], cells[target - 1], origin, number)


def read_jsonl(path: str | os.PathLike[str]) -> list[Pair]:
    """Lines of ``{"source": …, "target": …}``, with sure ``"links": [[0, 1], …]`` and ``"possible"`` ones if known."""
    return list(_jsonl(path))


def _jsonl(path: str | os.PathLike[str]) -> Iterator[Pair]:
    origin = str(Path(path))
    for number, line in enumerate(iterate_lines(path), 1):
        place = f"{origin}, line {number}"
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: not JSON ({error}); got {quoted(line)}") from error
        if not isinstance(item, dict):
            raise DataError(f'{place}: an object {{"source": …, "target": …}} is expected, got {quoted(line)}')
        texts = []
        for side in ("source", "target"):
            text = item.get(side)
            if not isinstance(text, str):
                raise DataError(f"{place}: {side!r} must be a text, got {quoted(json.dumps(text))}")
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise DataError(f"{place}: {side!r} holds half of a surrogate pair, which is no character")
            if "\n" in text or "\r" in text:
                raise DataError(f"{place}: {side!r} holds a line break; one line in is one line out, so split it first")
            texts.append(text)
        links = _links(item.get("links"), f"{place}: 'links'")
        possible = _links(item.get("possible"), f"{place}: 'possible'")
        if links is not None:
            possible = links | (possible or frozenset())
        _check_range(possible, texts, place)
        yield Pair(texts[0], texts[1], origin, number, links, possible)


def _links(value: object, place: str) -> Links | None:
    if value is None:
        return None
    if isinstance(value, list):
        whole = [link for link in value if isinstance(link, list) and len(link) == 2 and all(map(_is_index, link))]
        if len(whole) == len(value):
            return frozenset((source, target) for source, target in whole)
    raise DataError(f"{place} must be [[source word, target word], …] counted from 0, got {quoted(json.dumps(value))}")


def _check_range(links: Links | None, texts: Sequence[str], place: str) -> None:
    for word, side in enumerate(("source", "target")):
        highest = max((link[word] for link in links or ()), default=-1)
        if highest >= 0 and highest >= (count := len(split_words(texts[word], "tokenizer"))):
            raise DataError(
                f"{place}: a link names {side} word {highest}, but the {side} has {count} words, counted from 0 and "
                "marks as words of their own"
            )


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
