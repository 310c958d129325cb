"""`regard fill`: one line in is one line out, its gaps filled."""

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import RunFolder, Threads, command
from regard.cli.outputs import answer_lines

if TYPE_CHECKING:
    from regard.tasks.masked.predictor import Filled

Input = Annotated[
    str, typer.Argument(metavar="TEXT|FILE|-", help="A text with [MASK] in it, a file, or - for standard input.")
]
Top = Annotated[int, typer.Option("--top", min=1, max=100, help="Candidates per gap, with --format jsonl.")]
Format = Annotated[
    Literal["text", "jsonl"],
    typer.Option("--format", help="text: the line with its gaps filled; jsonl: an object with the candidates."),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Lines computed together.")]


@command(
    app,
    "fill",
    examples="""
    regard fill runs/masked "for i in [MASK](10):"
    regard fill runs/masked "the [MASK] of the file" --format jsonl --top 3
    cat lines.txt | regard fill runs/masked -
    """,
)
def fill(
    run: RunFolder,
    text: Input = "-",
    top: Top = 5,
    format: Format = "text",
    batch: Batch = 64,
    threads: Threads = None,
) -> None:
    """Fill the gaps, written [MASK], of each line of a text, a file or standard input.

    Line by line and in order, in constant memory. Each gap is filled with its likeliest token, while the other gaps of
    the line are still masked. A line without a gap stays as it is. A line longer than the model's limit is not filled,
    with a warning that names it, and the exit code is 1.
    """
    answer_lines(
        run,
        "fill",
        text,
        _written if format == "jsonl" else lambda filled: filled.filled,
        batch=batch,
        threads=threads,
        top=top,
    )


def _written(filled: "Filled") -> str:
    entry = {"line": filled.line, "text": filled.text, "filled": filled.filled, "gaps": filled.gaps}
    note = {"note": filled.note} if filled.note else {}
    return json.dumps({**entry, **note}, ensure_ascii=False)
