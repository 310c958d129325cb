"""Where the lines that a command works on come from: a text, a file or standard input."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import typed, warn
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.data.text.lines import ByteStream

STANDARD_INPUT = "standard input"
Input = Annotated[
    str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file (also .gz), or - for standard input.")
]
_ENDINGS = (".txt", ".gz", ".en", ".de", ".fr", ".es", ".zh", ".src", ".tgt", ".tsv", ".csv", ".json", ".jsonl")


def lines_of(given: str) -> Iterator[str]:
    """The lines of standard input for `-`, of a file if there is one of that name, else the text itself as one line.

    A name may lead into a zip archive: `a.zip/b.txt`.

    Raises:
        DataError: what looks like a file's name is none, or it names a folder; to translate a name, it can be piped.
        ConfigError: the text holds a line break.
    """
    from regard.data.text.lines import decode_lines, iterate_lines

    if given == "-":
        return decode_lines(standard_input(), STANDARD_INPUT)
    if file_of(given) is not None:
        return iterate_lines(given)
    if is_folder(given):
        raise DataError(
            f"{given} is a folder; a text or a file of lines is expected. To take this as a text, pipe it in: "
            f"echo {shlex.quote(given)} | regard … -"
        )
    if _is(_named_like_a_file, given):
        raise DataError(
            f"{given}: no such file. To take this as a text, pipe it in: echo {shlex.quote(given)} | regard … -"
        )
    return iter([one_line(given)])


def at_once(given: str, batch: int) -> int:
    """How many lines are read before any is answered: some batches, to sort them by length, but one where one types."""
    return 1 if is_typed(given) else 16 * batch


def is_file(given: str) -> bool:
    """Whether the lines are those of a file, which can be read twice."""
    return given != "-" and _is(Path.is_file, given)


def is_folder(given: str) -> bool:
    """Whether there is a folder of that name."""
    return _is(Path.is_dir, given)


def file_of(given: str) -> Path | None:
    """The file that is read for a name: one of that name, or the archive that it goes into; None for a text."""
    from regard.data.text.archives import archive_of

    if given == "-":
        return None
    if _is(Path.is_file, given):
        return Path(given)
    return archive_of(Path(given)) if _is(archive_of, given) else None


def refuse_input(out: Path | None, *given: str | Path | None) -> None:
    """Refuse to write over what is read: a file, or the archive that holds it.

    Raises:
        ConfigError: the output is one of the inputs, whatever either is called.
    """
    if out is None or not out.is_file():
        return
    for one in given:
        file = None if one is None else file_of(str(one))
        if file is not None and os.path.samefile(file, out):
            raise ConfigError(f"{out} is the input itself; name another file to write")


def warn_of_a_file(given: str) -> None:
    """Say that a text is taken as it is, where there is a file of that name and a command reads none."""
    if is_file(given):
        warn(
            f"there is a file {given}, but its name is taken as the text itself. To give a line of the file: "
            f"head -n 1 {shlex.quote(given)} | regard … -"
        )


def is_typed(given: str) -> bool:
    """Whether a person types the lines at a terminal, and waits for the answer to each."""
    return given == "-" and sys.stdin is not None and sys.stdin.isatty()


def one_line(given: str) -> str:
    """A text of the command line, or the one line of standard input for `-`.

    Raises:
        ConfigError: there is a line break in it, or standard input has not exactly one line.
    """
    from regard.data.text.lines import decode_lines

    if given == "-":
        lines = list(decode_lines(standard_input(), STANDARD_INPUT))
        if len(lines) != 1:
            raise ConfigError(f"{STANDARD_INPUT} has {len(lines)} lines; one is expected here")
        return lines[0]
    text = typed(given)
    if "\n" in text or "\r" in text:
        raise ConfigError("the text has several lines; give them in a file or on standard input")
    return text


def _named_like_a_file(path: Path) -> bool:
    """Whether a text that names no file was surely meant to: by its ending, or by the folder that it begins with."""
    text = str(path)
    if any(character.isspace() for character in text):
        return False
    return text.lower().endswith(_ENDINGS) or (path.parent != Path() and path.parent.is_dir())


def standard_input() -> "ByteStream":
    """The bytes of standard input.

    Raises:
        DataError: the program was started with it closed.
    """
    if sys.stdin is None:
        raise DataError(f"{STANDARD_INPUT} is closed; give a text, a file or a pipe")
    return sys.stdin.buffer


def _is(kind: Callable[[Path], object], given: str) -> bool:
    try:
        return bool(given) and bool(kind(Path(given)))
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False
