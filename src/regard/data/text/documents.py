"""Text by the document, line by line: from files, folders, JSON Lines and JSON, read lazily."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.text.archives import archive_of
from regard.data.text.lines import ending_of, iterate_lines
from regard.errors import DataError, nearest

_OBJECTS = (".jsonl", ".ndjson")
ENDINGS = (".txt", ".md", ".rst", ".json", *_OBJECTS)
"""Endings of a folder's files of text, with or without a further ``.gz``."""

_BREAK = re.compile(r"\r\n|\n|\r")


class Line(NamedTuple):
    """A line of text.

    Attributes:
        text: without its break.
        first: whether a document begins with it.
        ends: whether its end is here; false for the front part of a line that is split.
    """

    text: str
    first: bool = False
    ends: bool = True


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files that some paths name: a folder's are all of its files of text, in the order of their names.

    Raises:
        DataError: a folder has none.
    """
    found = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(
            file
            for file in path.rglob("*")
            if ending_of(file) in ENDINGS and file.is_file() and not _hidden(file.relative_to(path))
        )
        if not inside:
            raise DataError(f"the folder {path} holds no file of text; one ends with {', '.join(ENDINGS)}, or .gz more")
        found += inside
    return found


def iterate_text(paths: Sequence[Path], fields: Sequence[str] = ("text",)) -> Iterator[Line]:
    """The lines of some files and folders, one after the other.

    Args:
        paths: files, folders, files in zip archives.
        fields: of JSON: what is read of each object, in this order; each a string, or a list of strings, its lines.

    Raises:
        DataError: a file, or a line of it, cannot be read; a file of JSON is not of that form.
    """
    for path in files_of(paths):
        ending = ending_of(path)
        if ending in _OBJECTS:
            for number, line in enumerate(iterate_lines(path), start=1):
                if line.strip():
                    place = f"{path}, line {number}"
                    yield from _lines_of(_parsed(line, place), fields, place)
        elif ending == ".json":
            yield from _entries(path, fields)
        else:
            for number, line in enumerate(iterate_lines(path)):
                yield Line(line, first=number == 0)


def _entries(path: Path, fields: Sequence[str]) -> Iterator[Line]:
    whole = _parsed("\n".join(iterate_lines(path)), str(path))
    if not isinstance(whole, list):
        raise DataError(f"{path}: a list of documents is expected, [{{…}}, {{…}}]; for one per line, name it .jsonl")
    for number, entry in enumerate(whole, start=1):
        yield from _lines_of(entry, fields, f"{path}, entry {number}")


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: this is not JSON ({error})") from error


def _lines_of(entry: Any, fields: Sequence[str], place: str) -> Iterator[Line]:
    """The lines of one document; none where it is blank."""
    if isinstance(entry, str):
        texts = [entry]
    elif isinstance(entry, dict):
        texts = [text for name in fields for text in _field(entry, name, place)]
    else:
        raise DataError(f"{place}: a document is an object with the field {fields[0]!r}, or a string")
    lines = [line for text in texts if text for line in _BREAK.split(text.removesuffix("\n"))]
    if any(line.strip() for line in lines):
        for number, line in enumerate(lines):
            yield Line(line, first=number == 0)


def _field(entry: dict[str, Any], name: str, place: str) -> list[str]:
    if name not in entry:
        raise DataError(f"{place}: there is no field {name!r}.{nearest(name, entry)} Choose with data.fields=[NAME, …]")
    value = entry[name]
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{place}: the field {name!r} holds neither a string nor a list of strings")
    return texts


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def origin_of(path: Path) -> tuple[str, int, int]:
    """What identifies a file without reading it: its path, bytes, and when it was last written, in ns.

    Raises:
        DataError: there is no such file.
    """
    file = archive_of(path) or path
    try:
        known = file.stat()
    except OSError as error:
        raise DataError(f"{path}: no such file") from error
    return str(path.resolve()), known.st_size, known.st_mtime_ns
