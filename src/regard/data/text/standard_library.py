"""The source of Python's own standard library: code, comments and docstrings that every machine with Python has."""

import os
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.errors import DataError

_LEFT_OUT = frozenset(
    {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test", "encodings", "pydoc_data"}
)
"""Folders of other packages, of tests (text made to be strange), of tables, and of one large generated text."""


class SourceFile(NamedTuple):
    """One module.

    Attributes:
        name: its path inside the library, with slashes on every machine.
        lines: without their breaks.
    """

    name: str
    lines: list[str]


def standard_library(root: Path | None = None) -> Iterator[SourceFile]:
    """Every module of the library, in the order of their names.

    Which modules there are, and what they say, changes a little with Python's version.

    Args:
        root: the library's folder; that of the running Python if None.

    Raises:
        DataError: there is no source (a Python may come without it), or a file cannot be read.
    """
    folder = Path(sysconfig.get_paths()["stdlib"]) if root is None else root
    names = []
    for place, below, files in os.walk(folder):
        below[:] = [name for name in below if name not in _LEFT_OUT]  # which keeps the walk out of them
        names += [(Path(place) / name).relative_to(folder).as_posix() for name in files if name.endswith(".py")]
    if not names:
        raise DataError(f"{folder} holds no source of a standard library; name files of text: data.text=FILE")
    for name in sorted(names):
        path = folder / name
        try:
            with tokenize.open(path) as file:  # as Python reads it: by its own mark of the encoding
                yield SourceFile(name, file.read().split("\n"))
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise DataError(f"{path} cannot be read as Python's source: {error}") from error
