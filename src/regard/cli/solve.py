"""`regard solve`: what a trained model makes of sequences."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.command import Threads, command
from regard.cli.console import out, typed
from regard.cli.inputs import STANDARD_INPUT, file_of, is_typed, lines_of, refuse_input

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.", show_default=False)]
Input = Annotated[
    str, typer.Argument(metavar="[FILE]", help="A file of sequences, or one sequence; - reads standard input.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Write the answers to this file, when all are there.")]


@command(
    app,
    "solve",
    examples="""
    regard solve runs/copy "01100011 11000110 10001110"
    regard solve runs/copy sequences.txt --out answers.txt
    echo "3 01100011 11000110" | regard solve runs/repeat-copy
    regard solve runs/recall "111000 110111 | 101100 100011 | 001111 010111 ? 111000 110111"
    regard solve runs/priority-sort "0.48:10111001 -0.12:11110101 0.9:00000101"
    """,
)
def solve(run: RunFolder, text: Input = "-", out_: Out = None, threads: Threads = None) -> None:
    """Solve sequences with a run of the task algorithms: one line in is one line out, in order.

    A line is a sequence as its problem writes it, rows as words of 0 and 1: rows to copy; how many times and the rows;
    items between | and, after ?, the one whose follower is wanted; priority:row to sort; key:value pairs and, after ?,
    the keys to count and recall; episodes of rows between |. An empty line has an empty answer; a line that is none of
    these is an error that names file and line.
    """
    from regard.files import write_atomically
    from regard.tasks.load import load
    from regard.tasks.runs import config_of

    config_of(run, "algorithms")
    text = typed(text)
    refuse_input(out_, text)
    lines = lines_of(text)
    origin = STANDARD_INPUT if text == "-" else "the text" if file_of(text) is None else text
    answers = load(run, threads=threads).stream(lines, origin, together=1 if is_typed(text) else 64)
    if out_ is None or str(out_) == "-":
        for answer in answers:
            out(answer)
    else:
        write_atomically(out_, "".join(f"{answer}\n" for answer in answers))
