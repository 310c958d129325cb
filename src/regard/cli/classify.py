"""`regard classify`: one line in is one line out, its label and how probable it is."""

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import RunFolder, Threads, command
from regard.cli.inputs import Input
from regard.cli.outputs import answer_lines

if TYPE_CHECKING:
    from regard.tasks.classification.predictor import Verdict

Format = Annotated[
    Literal["tsv", "jsonl"],
    typer.Option("--format", help="tsv: label<TAB>probability; jsonl: an object with the probability of each label."),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Sentences computed together.")]


@command(
    app,
    "classify",
    examples="""
    regard classify runs/polarity "a quiet triumph ."
    regard classify runs/polarity reviews.txt > labels.tsv
    cat reviews.txt | regard classify runs/polarity - --format jsonl
    """,
)
def classify(
    run: RunFolder, text: Input = "-", format: Format = "tsv", batch: Batch = 64, threads: Threads = None
) -> None:
    """Predict the label of each line of a text, a file or standard input.

    Line by line and in order, in constant memory: one line in is one line out, whatever the line. A line without words
    has no label, and its line out is empty. A line longer than the model's limit is cut with a warning that names it,
    and the exit code is 1.
    """
    answer_lines(run, "classify", text, lambda verdict: _written(verdict, format), batch=batch, threads=threads)


def _written(verdict: "Verdict", format: str) -> str:
    if format == "tsv":
        return f"{verdict.label}\t{verdict.probability:.4f}" if verdict.label else ""
    entry = {"line": verdict.line, "text": verdict.text, "label": verdict.label or None}
    note = {"note": verdict.note} if verdict.note else {}
    return json.dumps({**entry, "probabilities": verdict.probabilities, **note}, ensure_ascii=False)
