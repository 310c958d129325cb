"""Where the lines that a command works on come from: a text, a file or standard input."""

import sys
from collections.abc import Iterator
from pathlib import Path

from regard.cli.console import typed
from regard.errors import ConfigError, DataError

STANDARD_INPUT = "standard input"
_ENDINGS = (".txt", ".gz", ".en", ".de", ".fr", ".es", ".zh", ".src", ".tgt", ".tsv", ".jsonl")


def lines_of(given: str) -> Iterator[str]:
    """The lines of standard input for `-`, of a file if there is one of that name, else the text itself as one line.

    Raises:
        DataError: what looks like a file's name is none; to translate a name, it can be piped.
        ConfigError: the text holds a line break.
    """
    from regard.data.lines import decode_lines, iterate_lines

    if given == "-":
        return decode_lines(sys.stdin.buffer, STANDARD_INPUT)
    if _is_file(given):
        return iterate_lines(given)
    if given.endswith(_ENDINGS) and not any(character.isspace() for character in given):
        raise DataError(f"{given}: no such file. To take this as a text, pipe it in: echo {given} | regard … -")
    return iter([one_line(given)])


def is_typed(given: str) -> bool:
    """Whether a person types the lines at a terminal, and waits for the answer to each."""
    return given == "-" and sys.stdin.isatty()


def one_line(given: str) -> str:
    """A text of the command line, or the one line of standard input for `-`.

    Raises:
        ConfigError: there is a line break in it, or standard input has not exactly one line.
    """
    from regard.data.lines import decode_lines

    if given == "-":
        lines = list(decode_lines(sys.stdin.buffer, STANDARD_INPUT))
        if len(lines) != 1:
            raise ConfigError(f"{STANDARD_INPUT} has {len(lines)} lines; one is expected here")
        return lines[0]
    text = typed(given)
    if "\n" in text or "\r" in text:
        raise ConfigError("the text has several lines; give them in a file or on standard input")
    return text


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False
