"""Pairs of texts as commands take them: two files or texts, or one TSV; read while they are worked on."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import out, typed
from regard.cli.inputs import STANDARD_INPUT, file_of, lines_of, refuse_input
from regard.errors import ConfigError, DataError

Source = Annotated[
    str | None, typer.Argument(metavar="SOURCE", help="A text, a file (also .gz), or -.", show_default=False)
]
Target = Annotated[
    str | None, typer.Argument(metavar="TARGET", help="Its translation, line by line.", show_default=False)
]
Tsv = Annotated[Path | None, typer.Option(help="Lines of source<TAB>target, in place of SOURCE and TARGET.")]
Columns = Annotated[str, typer.Option("--columns", help="Which columns of --tsv are source and target.")]
Separator = Annotated[
    str,
    typer.Option("--separator", help='Between the columns of --tsv; e.g. " ||| ". [default: tab]', show_default=False),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file; standard output if not given.")]

Text = tuple[str, str]


def pairs_of(
    source: str | None,
    target: str | None,
    tsv: Path | None,
    columns: str = "1,2",
    separator: str = "\t",
    out_: Path | None = None,
) -> Iterator[Text]:
    """Source and target of each pair, one by one.

    Raises:
        ConfigError: neither or both kinds of input are named, what was typed cannot be used, or `out_`, the file to
            write, is one of the inputs.
        DataError: a file cannot be read, or the two have different numbers of lines (the shorter one
            is named).
    """
    if (tsv is None) == (source is None or target is None) or (tsv is not None and source is not None):
        raise ConfigError("name the pairs: SOURCE and TARGET (files, texts, or - for one of them), or --tsv FILE")
    if tsv is None and (columns, separator) != ("1,2", "\t"):
        raise ConfigError("--columns and --separator describe a table: name it with --tsv")
    if not separator:
        raise ConfigError("--separator is empty; nothing can stand between columns then")
    refuse_input(out_, source, target, tsv)
    if tsv is not None:
        from regard.data.pairs.parallel_text import iterate_tsv

        return ((pair.source, pair.target) for pair in iterate_tsv(tsv, separator, columns_of(columns)))
    assert source is not None and target is not None
    if source == target == "-":
        raise ConfigError("standard input is one stream: give one of SOURCE and TARGET as -, or pairs with --tsv")
    names = source, target
    return _together(lines_of(typed(source)), lines_of(typed(target)), names)


def columns_of(given: str) -> tuple[int, int]:
    """The two columns of an option such as `2,1`.

    Raises:
        ConfigError: these are not two different columns from 1.
    """
    parts = given.split(",")
    if len(parts) == 2 and all(part.strip().isdecimal() and int(part) for part in parts):
        source, target = map(int, parts)
        if source != target:
            return source, target
    raise ConfigError(f"--columns {given!r}: two different columns from 1 are expected, source first, as in 2,1")


def _together(sources: Iterable[str], targets: Iterable[str], names: tuple[str, str]) -> Iterator[Text]:
    for number, (source, target) in enumerate(zip_longest(sources, targets)):
        if source is None or target is None:
            shown = [STANDARD_INPUT if name == "-" else name for name in names]
            shorter, longer = shown if source is None else reversed(shown)
            raise DataError(
                f"{shorter} ends after {number} lines and {longer} continues; line i of one must translate line i of "
                f"the other, so both need the same number{_texts(names)}"
            )
        yield source, target


def _texts(names: tuple[str, str]) -> str:
    """A remark on names that are no files, as they may be mistyped."""
    typed_ones = [name for name in names if name != "-" and file_of(name) is None]
    return f" ({typed_ones[0]!r} is no file, so it is taken as a text of one line)" if len(typed_ones) == 1 else ""


@contextmanager
def written(path: Path | None) -> Iterator[Callable[[str], object]]:
    """Where lines go: standard output as they come, or a file that appears when it is whole."""
    if path is None or str(path) == "-":
        yield out
        return
    from regard.files import replacing

    with replacing(path) as part, open(part, "w", encoding="utf-8", newline="\n") as file:
        yield lambda line: file.write(line + "\n")
