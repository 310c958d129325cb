"""`regard translate`: one line in is one line out, whatever the line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, Seed, Threads, command
from regard.cli.console import out, typed, warn
from regard.cli.inputs import is_typed, lines_of
from regard.cli.searching import (
    Beam,
    CoveragePenalty,
    LengthPenalty,
    MaxLength,
    MeanOf,
    MinLength,
    NBest,
    Sample,
    Temperature,
    TopK,
    TopP,
    With,
    loaded,
    search_from,
)
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.tasks.translator import Translation

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.", show_default=False)]
Input = Annotated[
    str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file (also .gz), or - for standard input.")
]
Align = Annotated[
    Literal["none", "words", "soft"],
    typer.Option("--align", help="words: links such as 0-0 2-1 (Pharaoh); soft: all weights, in JSON only."),
]
Format = Annotated[Literal["text", "json", "jsonl"], typer.Option("--format", help="How results are written.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file; standard output if not given.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Sentences computed together; never changes a result.")]


@command(
    app,
    "translate",
    examples="""
    regard translate runs/de-en "Ein Hund rennt im Schnee ."
    regard translate runs/de-en test.de.gz --beam 5 --out test.out
    cat test.de | regard translate runs/de-en - --align words
    regard translate runs/de-en test.de --format jsonl --n-best 3 --align soft
    """,
)
def translate(
    run: RunFolder,
    text: Input = "-",
    align: Align = "none",
    format: Format = "text",
    out_: Out = None,
    beam: Beam = None,
    n_best: NBest = None,
    max_length: MaxLength = None,
    min_length: MinLength = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    sample: Sample = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    with_: With = None,
    mean: MeanOf = None,
    batch: Batch = 64,
    seed: Seed = None,
    threads: Threads = None,
) -> None:
    """Translate a text, a file or standard input.

    Line by line and in order, in constant memory: one line in is one line out, whatever the line. A line longer
    than the model's limit is cut with a warning that names it, and the exit code is 1.
    """
    if align == "soft" and format == "text":
        raise ConfigError("--align soft writes whole matrices; choose --format json or jsonl")
    search = search_from(
        run,
        beam=beam,
        n_best=n_best,
        max_length=max_length,
        min_length=min_length,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    lines = lines_of(typed(text))

    translator = loaded(run, with_, mean, threads)
    translations = translator.stream(lines, search=search, batch=batch, chunk=1 if is_typed(text) else None)
    cut = False
    with _written(out_) as write:
        for line, translation in _formatted(translations, format, align):
            write(line)
            if translation is not None and translation.note:
                warn(f"line {translation.line}: {translation.note}")
                cut = True
    if cut:
        raise typer.Exit(FAILED)


def _formatted(
    translations: "Iterator[Translation]", format: str, align: str
) -> "Iterator[tuple[str, Translation | None]]":
    """The lines to write, each with the translation it came from."""
    if format == "text":
        for one in translations:
            yield _plain(one, align), one
    elif format == "jsonl":
        for one in translations:
            yield json.dumps(as_json(one, align), ensure_ascii=False), one
    else:
        opening = "["
        for one in translations:
            yield opening + json.dumps(as_json(one, align), ensure_ascii=False), one
            opening = ","
        yield "[]" if opening == "[" else "]", None


def _plain(translation: "Translation", align: str) -> str:
    """One line: the outputs separated by tabs, each followed by its links if asked."""
    from regard.data.pharaoh import format_pharaoh

    shown = []
    for place, output in enumerate(translation.outputs):
        text = output.text
        if len(translation.outputs) > 1:
            text = text.replace("\t", " ")
        shown.append(f"{text} ||| {format_pharaoh(set(translation.links(place)))}" if align == "words" else text)
    return "\t".join(shown)


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
            entry["pieces"] = output.pieces
            entry["alignment"] = None if output.alignment is None else output.alignment.tolist()
        outputs.append(entry)
    content: dict[str, Any] = {"line": translation.line, "source": translation.source}
    if align == "words":
        content["source_words"] = translation.source_words
    if align == "soft":
        content["source_pieces"] = translation.source_pieces
    if translation.note:
        content["note"] = translation.note
    return {**content, "outputs": outputs}


@contextmanager
def _written(path: Path | None) -> "Iterator[Any]":
    """Where lines go: standard output as they come, or a file that appears when it is whole."""
    if path is None or str(path) == "-":
        yield out
        return
    from regard.files import replacing

    with replacing(path) as part, open(part, "w", encoding="utf-8", newline="\n") as file:
        yield lambda line: file.write(line + "\n")
