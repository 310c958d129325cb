"""`regard tag`: one line in is one line out, its words with their tags."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, Threads, command
from regard.cli.console import out, typed, warn
from regard.cli.inputs import at_once, lines_of

if TYPE_CHECKING:
    from regard.tasks.tagger import Tagged

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.", show_default=False)]
Input = Annotated[
    str, typer.Argument(metavar="TEXT|FILE|-", help="A text, a file (also .gz), or - for standard input.")
]
Words = Annotated[
    Literal["tokenizer", "whitespace"],
    typer.Option("--words", help="What a word is: a unit of regard's own, or what stands between white space."),
]
Format = Annotated[
    Literal["text", "jsonl"],
    typer.Option("--format", help="text: word/TAG word/TAG …; jsonl: an object with words, tags and probabilities."),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Sentences computed together.")]


@command(
    app,
    "tag",
    examples="""
    regard tag runs/tagging "The dog runs in the snow."
    regard tag runs/tagging sentences.txt --words whitespace > tagged.txt
    cat sentences.txt | regard tag runs/tagging - --format jsonl
    """,
)
def tag(
    run: RunFolder,
    text: Input = "-",
    words: Words = "tokenizer",
    format: Format = "text",
    batch: Batch = 64,
    threads: Threads = None,
) -> None:
    """Tag the words of each line of a text, a file or standard input.

    Line by line and in order, in constant memory: one line in is one line out, whatever the line. A line without words
    gives an empty one. A line longer than the model's limit is cut with a warning that names it, and the exit code
    is 1.
    """
    from regard.tasks.runs import config_of

    config_of(run, "tagging")
    given = typed(text)
    lines = lines_of(given)

    from regard.tasks.load import load

    tagger, cut = load(run, threads=threads), False
    for tagged in tagger.stream(lines, counted=words, batch=batch, chunk=at_once(given, batch)):
        out(_written(tagged) if format == "jsonl" else str(tagged))
        if tagged.note:
            warn(f"line {tagged.line}: {tagged.note}")
            cut = True
    if cut:
        raise typer.Exit(FAILED)


def _written(tagged: "Tagged") -> str:
    told = {"line": tagged.line, "text": tagged.text, "words": tagged.words, "tags": tagged.tags}
    note = {"note": tagged.note} if tagged.note else {}
    return json.dumps({**told, "probabilities": tagged.probabilities, **note}, ensure_ascii=False)
