"""`regard answer`: questions about stories, one answer per line."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, RunFolder, Threads, command
from regard.cli.console import out, say, typed, warn
from regard.cli.inputs import STANDARD_INPUT, file_of, is_folder, lines_of
from regard.errors import ConfigError, cut

if TYPE_CHECKING:
    from regard.data.reading.babi import Story
    from regard.data.reading.questions import Question as Asked
    from regard.tasks.reading.spans.predictor import Found
    from regard.tasks.reading.stories.predictor import Answered

Stories = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE|-",
        help="Stories with questions in the form of bAbI; - is standard input. For a reader that points also "
        "questions in the form of SQuAD, FILE.json.",
    ),
]
StoryText = Annotated[
    str | None, typer.Option("--story", metavar="FILE|TEXT|-", help="One story: sentences, or a file of them.")
]
Question = Annotated[str | None, typer.Option("--question", metavar="TEXT", help="What to ask at the story's end.")]
Format = Annotated[
    Literal["tsv", "jsonl"],
    typer.Option("--format", help="tsv: answer<TAB>probability; jsonl: with its place and what was read."),
]


@command(
    app,
    "answer",
    examples="""
    regard answer runs/babi-1 --story "Mary went to the garden. John moved to the office." --question "Where is Mary?"
    regard answer runs/babi-1 --story story.txt --question "Where is John?" --format jsonl
    regard answer runs/babi-1 qa1_single-supporting-fact_test.txt > answers.tsv
    printf '1 Mary went to the garden.\\n2 Where is Mary?\\n' | regard answer runs/babi-1 -
    regard answer runs/reader --story article.txt --question "Who wrote it?"
    regard answer runs/reader dev-v1.1.json --format jsonl > answers.jsonl
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
    in is a line out, in order. Words that the model has never read are named; sentences that are too long are cut, with
    a warning, and the exit code is 1.

    A reader that points (model.kind=span) answers with words of the text as they stand there, and nothing where the
    text does not answer, if it was trained on such questions. It cuts nothing.
    """
    from regard.tasks.core.runs import config_of

    named = _named(stories, story, question)
    points = config_of(run, "answer").get("model", {}).get("kind") == "span"
    readers: tuple[Any, Any, Any] = (
        (_questions, _question, _point) if points else (_stories, _story, _answer_from_vocabulary)
    )
    many, single, answer_all = readers
    answer_all(run, many(typed(str(stories))) if named else [single(str(story), question)], format, threads)


def _answer_from_vocabulary(run: Path, stories: "list[Story]", format: str, threads: int | None) -> None:
    """Answers of a reader that answers with a word of its vocabulary."""
    from regard.tasks.core.load import load

    shortened = False
    for number, one in enumerate(load(run, threads=threads).answer(stories), start=1):
        out(_written(one, format))
        for note in one.notes:
            warn(f"question {number}: {note}")
            shortened = shortened or note.endswith("were cut")
    if shortened:
        raise typer.Exit(FAILED)


def _point(run: Path, questions: "list[Asked]", format: str, threads: int | None) -> None:
    """Answers of a reader that points; for a single one its place in the text is shown."""
    from regard.tasks.core.load import load

    answerer = load(run, threads=threads)
    found = answerer.answer(questions)
    for one in found:
        out(_found(one, format))
    if len(found) == 1 and found[0].span is not None:
        before, after = found[0].around()
        say(f"{before}[{' '.join(found[0].text.split())}]{after}")
    for note in found[0].notes if len(found) == 1 else answerer.noted(questions):
        warn(note)


def _named(stories: str | None, story: str | None, question: str | None) -> bool:
    """Whether a file of stories is named; else there is one story."""
    if (stories is None) == (story is None):
        raise ConfigError("name a file of stories, or give one story: --story FILE|TEXT --question TEXT")
    if story is None and question is not None:
        raise ConfigError("--question is asked of one story; give it with --story FILE|TEXT")
    if stories is not None and stories != "-" and file_of(typed(stories)) is None:
        fault = "is a folder; a file of stories is expected" if is_folder(stories) else "no such file"
        raise ConfigError(f"{cut(stories, 80)}: {fault}; a story on the command line is given by --story TEXT")
    return stories is not None


def _text(story: str) -> tuple[str, str]:
    """The text of --story, and what errors call it."""
    # A text may have several lines, which the name of a file has not.
    several = len(story.splitlines()) > 1
    place = STANDARD_INPUT if story == "-" else "--story" if several or file_of(story) is None else story
    return (typed(story) if several else "\n".join(lines_of(typed(story)))), place


def _story(story: str, question: str | None) -> "Story":
    from regard.tasks.reading.stories.predictor import story_of

    text, place = _text(story)
    return story_of(text, None if question is None else typed(question), place)


def _question(story: str, question: str | None) -> "Asked":
    from regard.data.reading.questions import question_of

    text, place = _text(story)
    return question_of(text, None if question is None else typed(question), place)


def _stories(given: str) -> "list[Story]":
    from regard.data.reading.babi import parse_stories

    return list(parse_stories(list(lines_of(given)), STANDARD_INPUT if given == "-" else given, answered=False))


def _questions(given: str) -> "list[Asked]":
    from regard.data.reading.questions import questions_of
    from regard.data.reading.squad import read_squad
    from regard.data.text.lines import ending_of

    if ending_of(given) == ".json":
        return [one for group in read_squad(given, answered=False) for one in group]
    return [one for story in _stories(given) for one in questions_of(story, answered=False)]


def _found(one: "Found", format: str) -> str:
    if format == "tsv":
        return f"{' '.join(one.text.split())}\t{one.probability:.4f}"
    question = one.question
    entry: dict[str, Any] = {"place": question.place, **({"id": question.id} if question.id else {})}
    entry |= {"question": question.question, "answer": one.text, "probability": one.probability}
    entry |= {"start": one.span[0], "end": one.span[1]} if one.span else {"start": None, "end": None}
    if one.nothing is not None:
        entry["no_answer"] = one.nothing
    sums = one.sums(one.weights)
    entry["read"] = [
        {"start": start, "end": end, "sentence": question.text[start:end], "weight": float(weight)}
        for (start, end), weight in zip(question.sentences, sums, strict=True)
    ]
    return json.dumps(entry | ({"notes": one.notes} if one.notes else {}), ensure_ascii=False)


def _written(one: "Answered", format: str) -> str:
    if format == "tsv":
        return f"{one.answer}\t{one.probability:.4f}"
    entry: dict[str, Any] = {
        "place": one.story.place,
        "question": one.question.text,
        "answer": one.answer,
        "probability": one.probability,
        "probabilities": one.probabilities,
    }
    if one.read is not None:
        entry["read"] = [
            {"line": place + 1, "sentence": one.story.lines[place].text, "weight": float(one.read[place])}
            for place in one.facts
        ]
    return json.dumps(entry | ({"notes": one.notes} if one.notes else {}), ensure_ascii=False)
