"""`regard answer`: questions about stories, an answer a line."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, Threads, command
from regard.cli.console import out, typed, warn
from regard.cli.inputs import STANDARD_INPUT, file_of, lines_of
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.babi import Story
    from regard.tasks.answerer import Answered

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.", show_default=False)]
Stories = Annotated[
    str | None,
    typer.Argument(metavar="FILE|-", help="Stories with questions in the form of bAbI; - is standard input."),
]
StoryText = Annotated[
    str | None, typer.Option("--story", metavar="FILE|TEXT|-", help="One story: sentences, or a file of them.")
]
Question = Annotated[str | None, typer.Option("--question", metavar="TEXT", help="What to ask at the story's end.")]
Format = Annotated[
    Literal["tsv", "jsonl"],
    typer.Option("--format", help="tsv: answer<TAB>probability; jsonl: with the sentences that were read."),
]


@command(
    app,
    "answer",
    examples="""
    regard answer runs/babi-1 --story "Mary went to the garden. John moved to the office." --question "Where is Mary?"
    regard answer runs/babi-1 --story story.txt --question "Where is John?" --format jsonl
    regard answer runs/babi-1 qa1_single-supporting-fact_test.txt > answers.tsv
    printf '1 Mary went to the garden.\\n2 Where is Mary?\\n' | regard answer runs/babi-1 -
    """,
)
def answer(
    run: RunFolder,
    stories: Stories = None,
    story: StoryText = None,
    question: Question = None,
    format: Format = "tsv",
    threads: Threads = None,
) -> None:
    """Answer questions about stories.

    Either of one story, --story and --question (or a story that itself ends in a question); or of many in the form of
    bAbI: lines `number sentence`, number 1 begins a story, a line that ends in ? or has tabs is a question. A question
    in is a line out, in order. Words that the model has never read are told; sentences that are too long are cut, with
    a warning, and the exit code is 1.
    """
    from regard.tasks.runs import config_of

    config_of(run, "reading")
    asked = _asked(stories, story, question)

    from regard.tasks.load import load

    cut = False
    answerer = load(run, threads=threads)
    for number, one in enumerate(answerer.answer(asked), start=1):
        out(_written(one, format))
        for note in one.notes:
            warn(f"question {number}: {note}")
            cut = cut or note.endswith("were cut")
    if cut:
        raise typer.Exit(FAILED)


def _asked(stories: str | None, story: str | None, question: str | None) -> "list[Story]":
    """The stories of the command line."""
    from regard.data.babi import parse_stories
    from regard.tasks.answerer import story_of

    if (stories is None) == (story is None):
        raise ConfigError("name a file of stories, or give one story: --story FILE|TEXT --question TEXT")
    if story is not None:
        # A text may have several lines, which the name of a file has not.
        several = len(story.splitlines()) > 1
        place = STANDARD_INPUT if story == "-" else "--story" if several or file_of(story) is None else story
        text = typed(story) if several else "\n".join(lines_of(typed(story)))
        return [story_of(text, None if question is None else typed(question), place)]
    if question is not None:
        raise ConfigError("--question is asked of one story; give it with --story FILE|TEXT")
    given = typed(str(stories))
    if given != "-" and file_of(given) is None:
        raise ConfigError(f"{given[:80]}: no such file; a story on the command line is given by --story TEXT")
    return list(parse_stories(list(lines_of(given)), STANDARD_INPUT if given == "-" else given, answered=False))


def _written(one: "Answered", format: str) -> str:
    if format == "tsv":
        return f"{one.answer}\t{one.probability:.4f}"
    told: dict[str, Any] = {
        "place": one.story.place,
        "question": one.question.text,
        "answer": one.answer,
        "probability": one.probability,
        "probabilities": one.probabilities,
    }
    if one.read is not None:
        told["read"] = [
            {"line": place + 1, "sentence": one.story.lines[place].text, "weight": float(one.read[place])}
            for place in one.facts
        ]
    return json.dumps(told | ({"notes": one.notes} if one.notes else {}), ensure_ascii=False)
