"""`regard tag`: one line in is one line out, its words with their tags."""

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import RunFolder, Threads, command
from regard.cli.inputs import Input
from regard.cli.outputs import answer_lines

if TYPE_CHECKING:
    from regard.tasks.tagging.predictor import Tagged

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
    answer_lines(run, "tag", text, _written if format == "jsonl" else str, batch=batch, threads=threads, counted=words)


def _written(tagged: "Tagged") -> str:
    entry = {"line": tagged.line, "text": tagged.text, "words": tagged.words, "tags": tagged.tags}
    note = {"note": tagged.note} if tagged.note else {}
    return json.dumps({**entry, "probabilities": tagged.probabilities, **note}, ensure_ascii=False)
