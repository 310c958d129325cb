"""What people see: results on standard output, everything else on standard error, and no text that can crash a run."""

import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from regard.data.messages import Information
from regard.errors import DataError

_STEERING = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""What a terminal obeys, all but line breaks and tabs: names and texts of files stand in messages, and may hold any."""

_BETWEEN = 10.0  # seconds between two progress messages


class Voice:
    """How much is printed; set once by the command that runs, or before it."""

    quiet = False
    debug = False


@contextmanager
def speaking(quiet: bool) -> Iterator[None]:
    """Print less while a command runs, and restore the old setting afterwards."""
    before, Voice.quiet = Voice.quiet, quiet or Voice.quiet
    try:
        yield
    finally:
        Voice.quiet = before


def open_streams() -> None:
    """Make the standard streams carry every character, whatever the locale (report B31).

    A file or a pipe gets UTF-8, as every file that regard writes does. A terminal keeps its own encoding, and shows
    what that cannot carry as an escape.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the program runs
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def typed(text: str) -> str:
    """A text from the command line, read as UTF-8 also where the locale says otherwise.

    Raises:
        DataError: the text is not UTF-8.
    """
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeEncodeError:
        return text
    except UnicodeDecodeError as error:
        raise DataError(
            f"the text {text!r} on the command line is not UTF-8. Give it in a file or type it again."
        ) from error


def out(text: str = "") -> None:
    """One line of a result, on standard output.

    Raises:
        DataError: the program was started with its standard output closed.
        OSError: it cannot be written, as on a full disk; it is named.
    """
    if sys.stdout is None:
        raise DataError(
            "standard output is closed; there is nowhere to write the result. Name a file or a pipe for it."
        )
    with _standard_output_named():
        sys.stdout.write(text + "\n")


def flush() -> None:
    """Write what is still held of the results."""
    if sys.stdout is not None:
        with _standard_output_named():
            sys.stdout.flush()


@contextmanager
def _standard_output_named() -> Iterator[None]:
    """The system does not say in its errors what it could not write."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader left, which is no error
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def say(text: str) -> None:
    """A message about the work, on standard error; silent under --quiet."""
    if not Voice.quiet:
        _write(text)


def warn(text: str) -> None:
    """A warning, on standard error; shown under --quiet too."""
    _write(f"warning: {text}")


def notice(text: str) -> None:
    """A message from reading data: a warning, unless it is `Information`."""
    if isinstance(text, Information):
        say(text)
    else:
        warn(text)


def complain(text: str) -> None:
    """An error, on standard error."""
    _write(f"error: {text}")


def _write(text: str) -> None:
    sys.stderr.write(text.translate(_STEERING) + "\n")


def progress() -> str:
    """How training shows its progress: a live bar in a terminal, lines elsewhere, nothing under --quiet."""
    return "silent" if Voice.quiet else "auto"


class Pace:
    """Reports on standard error how far a long job is, every ten seconds at most; silent under --quiet.

    Args:
        total: items in all.
        done: items done by an earlier start.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self.total, self.before = total, done
        self.start = self.shown = time.monotonic()

    def __call__(self, done: int) -> None:
        """Say how far the work is, but not more often than every ten seconds.

        Args:
            done: how many are done.
        """
        now = time.monotonic()
        if now - self.shown < _BETWEEN:
            return
        self.shown = now
        rate = (done - self.before) / (now - self.start)
        left = (self.total - done) / rate / 60
        say(f"{done:,} of {self.total:,} lines, {rate:,.0f} per second, {left:.1f} minutes left")


def colored() -> bool:
    """Whether standard output shows colours: a terminal, and NO_COLOR is not set."""
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A plain table with aligned columns; wide characters count two places."""
    from rich.cells import cell_len

    lines = [columns, *rows]
    widths = [max(cell_len(line[at]) for line in lines) for at in range(len(columns))]

    def show(line: list[str]) -> str:
        return "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()

    return "\n".join([show(columns), "  ".join("─" * width for width in widths), *map(show, rows)])
