"""How answers are written, one per line; and translations: as text, TSV, n-best lists, JSON."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import typer

from regard.cli.command import FAILED
from regard.cli.console import out, typed, warn
from regard.cli.inputs import at_once, lines_of

if TYPE_CHECKING:
    from regard.tasks.translation.predictor import Translation

Lines = list[str]


@runtime_checkable
class Noted(Protocol):
    """An answer to a line; `note` says what was done to the line that could not be read as it is, or is None."""

    @property
    def line(self) -> int:
        """The number of the line, from 1."""
        ...

    @property
    def note(self) -> str | None:
        """What was done to it, or None."""
        ...


Answer = TypeVar("Answer", bound=Noted)


def one_a_line(answers: Iterable[Answer], written: Callable[[Answer], str]) -> None:
    """One line out for each answer as it comes, and a warning for each note.

    Raises:
        typer.Exit: at the end, where there was a note: exit code 1.
    """
    noted = False
    for answer in answers:
        out(written(answer))
        if answer.note:
            warn(f"line {answer.line}: {answer.note}")
            noted = True
    if noted:
        raise typer.Exit(FAILED)


def answer_lines(
    run: Path,
    verb: str,
    text: str,
    written: Callable[[Any], str],
    *,
    batch: int,
    threads: int | None,
    **options: Any,
) -> None:
    """A trained model's answer to each line of a text, a file or standard input, one line out for one line in.

    Args:
        run: of a task with this verb, whose predictor answers lines.
        verb: the command's name.
        text: as it was typed.
        written: an answer as a line.
        batch: lines computed together.
        threads: to compute with; all cores if None.
        options: of the predictor's `stream`.

    Raises:
        typer.Exit: at the end, where there was a note.
    """
    from regard.tasks.core.runs import config_of

    config_of(run, verb)
    given = typed(text)
    lines = lines_of(given)

    from regard.tasks.core.load import load

    one_a_line(load(run, threads=threads).stream(lines, batch=batch, chunk=at_once(given, batch), **options), written)


def formatter(format: str, align: str, first: bool = True) -> "Callable[[Translation], Lines]":
    """What makes the lines of one translation.

    | format | a translation is |
    |---|---|
    | text | one line: its outputs, best first, between tabs |
    | tsv | a line `source<TAB>output` for each output |
    | nbest | a line `index ||| output ||| log_probability= -1.5 ||| score` for each, index from 0 |
    | jsonl | one line: an object |
    | json | one entry of the one list; `closing` ends it |

    A tab within a text is written as a space where tabs separate. An output may hold ` ||| `: take the first field of
    an n-best line from the left, the others from the right.

    Args:
        format: see the table.
        align: none; words adds ` ||| 0-0 2-1`; soft needs JSON.
        first: whether no translation was written before, which only a list of JSON cares about.
    """
    if format == "json":
        return _listed(align, first)
    makers: dict[str, Callable[[Translation], Lines]] = {
        "text": lambda one: [_plain(one, align)],
        "tsv": lambda one: _tsv(one, align),
        "nbest": lambda one: _n_best(one, align),
        "jsonl": lambda one: [json.dumps(as_json(one, align), ensure_ascii=False)],
    }
    return makers[format]


def closing(format: str, empty: bool) -> Lines:
    """What comes after the last translation."""
    if format != "json":
        return []
    return ["[]" if empty else "]"]


def _listed(align: str, first: bool) -> "Callable[[Translation], Lines]":
    opening = "[" if first else ","

    def entry(one: "Translation") -> Lines:
        nonlocal opening
        line = opening + json.dumps(as_json(one, align), ensure_ascii=False)
        opening = ","
        return [line]

    return entry


def _plain(translation: "Translation", align: str) -> str:
    """One line: the outputs separated by tabs, each followed by its links if asked."""
    shown = []
    for place, output in enumerate(translation.outputs):
        text = output.text if len(translation.outputs) == 1 else _without_tabs(output.text)
        shown.append(text + _links(translation, place, align))
    return "\t".join(shown)


def _tsv(translation: "Translation", align: str) -> Lines:
    source = _without_tabs(translation.source)
    return [
        f"{source}\t{_without_tabs(output.text)}{_links(translation, place, align)}"
        for place, output in enumerate(translation.outputs)
    ]


def _n_best(translation: "Translation", align: str) -> Lines:
    """The n-best lists of Moses and its kin (Koehn et al. 2007)."""
    return [
        f"{translation.line - 1} ||| {output.text} ||| log_probability= {output.log_probability:.6g} ||| "
        f"{output.score:.6g}{_links(translation, place, align)}"
        for place, output in enumerate(translation.outputs)
    ]


def _links(translation: "Translation", place: int, align: str) -> str:
    from regard.data.pairs.pharaoh import format_pharaoh

    return f" ||| {format_pharaoh(set(translation.links(place)))}" if align == "words" else ""


def _without_tabs(text: str) -> str:
    return text.replace("\t", " ")


def as_json(translation: "Translation", align: str) -> dict[str, Any]:
    """A translation as plain data."""
    outputs = []
    for place, output in enumerate(translation.outputs):
        entry: dict[str, Any] = {
            "text": output.text,
            "score": output.score,
            "log_probability": output.log_probability,
            "finished": output.finished,
        }
        if align == "words":
            entry["words"] = output.words
            entry["links"] = [list(link) for link in translation.links(place)]
        if align == "soft":
            entry["pieces"] = output.tokens
            entry["alignment"] = None if output.alignment is None else output.alignment.tolist()
        outputs.append(entry)
    content: dict[str, Any] = {"line": translation.line, "source": translation.source}
    if align == "words":
        content["source_words"] = translation.source_words
    if align == "soft":
        content["source_pieces"] = translation.source_tokens
    if translation.note:
        content["note"] = translation.note
    return {**content, "outputs": outputs}
