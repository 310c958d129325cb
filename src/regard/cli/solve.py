"""`regard solve`: what a trained model makes of sequences, numbers and points."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import RunFolder, Threads, command
from regard.cli.console import colored, out, say, typed
from regard.cli.inputs import STANDARD_INPUT, file_of, is_typed, lines_of, refuse_input
from regard.errors import ConfigError, quoted

if TYPE_CHECKING:
    from regard.tasks.pointing.predictor import Pointed, PointingPredictor

Input = Annotated[
    str, typer.Argument(metavar="[FILE]", help="A file, or one sequence or set of points; - reads standard input.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Write the answers to this file, when all are there.")]
Draw = Annotated[
    list[Path] | None,
    typer.Option("--draw", help="Draw the answers to .html, .png, .svg, .json or .csv; may be repeated."),
]
Beam = Annotated[
    int, typer.Option("--beam", min=1, help="Hypotheses kept for points; 1 is greedy. The shortest of its tours wins.")
]
Format = Annotated[
    Literal["text", "jsonl"], typer.Option("--format", help="Answers to points: numbers of points, or JSON objects.")
]

_OF_POINTS = ("--draw", "--beam", "--format")


@command(
    app,
    "solve",
    examples="""
    regard solve runs/copy "01100011 11000110 10001110"
    regard solve runs/copy sequences.txt --out answers.txt
    echo "3 01100011 11000110" | regard solve runs/repeat-copy
    regard solve runs/recall "111000 110111 | 101100 100011 | 001111 010111 ? 111000 110111"
    regard solve runs/priority-sort "0.48:10111001 -0.12:11110101 0.9:00000101"
    regard solve runs/sort "20 5 10"
    regard solve runs/hull points.csv --draw hull.png
    regard solve runs/tour points.json --beam 5 --format jsonl
    """,
)
def solve(
    given: list[str],
    run: RunFolder,
    text: Input = "-",
    out_: Out = None,
    draw: Draw = None,
    beam: Beam = 1,
    format: Format = "text",
    threads: Threads = None,
) -> None:
    """Solve sequences with a run of the task algorithms, numbers and points with one of pointing.

    Algorithms: one line in is one line out, in order. A line is a sequence as its problem writes it, rows as words of
    0 and 1: rows to copy; how many times and the rows; items between | and, after ?, the one whose follower is wanted;
    priority:row to sort; key:value pairs and, after ?, the keys to count and recall; episodes of rows between |. An
    empty line has an empty answer; a line that is none of these is an error that names file and line.

    Points: a set in is a line out, the numbers of its points from 1. CSV has a point a line, x,y, and an empty line
    between two sets; JSON a list of points, or of sets. Numbers to sort are one set per line. In a terminal the answers
    are drawn as well. An empty input writes no answer, only a message on standard error.
    """
    from regard.tasks.core.load import load
    from regard.tasks.core.runs import config_of
    from regard.tasks.core.settings import settings_of
    from regard.views.write import check_ending

    task = str(config_of(run, "solve")["task"])
    known = settings_of(task).options.get("solve", ())
    if others := [option for option in given if option in _OF_POINTS and option.removeprefix("--") not in known]:
        raise ConfigError(f"{others[0]} is for points, and {run} is a run of {task}; leave it out")
    for path in draw or []:
        check_ending(path)  # before the model is loaded
        refuse_input(path, text)
    text = typed(text)
    refuse_input(out_, text)
    lines = lines_of(text)
    origin = STANDARD_INPUT if text == "-" else "the text" if file_of(text) is None else text
    solver = load(run, threads=threads)
    if "draw" not in known:
        if not _write_answers(solver.stream(lines, origin=origin, batch=1 if is_typed(text) else 64), out_):
            say(f"{origin} has no lines; there is nothing to solve")
        return
    # An endless pipe is kept nowhere: only what will be drawn.
    shown = out_ is None and not draw and sys.stdout is not None and sys.stdout.isatty()
    kept: list[Pointed] | None = [] if draw or shown else None
    words: list[str] = []
    answers = solver.stream(solver.sets(_noting(lines, words), origin), beam=beam)
    if not _write_answers(_written(solver, answers, format, kept), out_):
        taken = f", only a line of words, {quoted(words[0])}, which was taken for names of columns" if words else ""
        say(f"{origin} has no points{taken}; there is nothing to solve")
    if kept:
        _drawn(solver, kept, draw or [])


def _noting(lines: Iterator[str], words: list[str]) -> Iterator[str]:
    """The same lines; the first one that is neither empty nor JSON is noted."""
    for line in lines:
        if not words and (text := line.strip()) and text[0] not in "[{":
            words.append(text)
        yield line


def _write_answers(answers: Iterator[str], path: Path | None) -> int:
    """Each answer as it comes, or all of them in a file; how many there were."""
    from regard.files import write_atomically

    if path is not None and str(path) != "-":
        lines = [f"{answer}\n" for answer in answers]
        write_atomically(path, "".join(lines))
        return len(lines)
    count = 0
    for answer in answers:
        out(answer)
        count += 1
    return count


def _written(
    solver: "PointingPredictor", answers: "Iterator[Pointed]", format: str, kept: "list[Pointed] | None"
) -> Iterator[str]:
    """A line an answer; all are kept if they are to be drawn."""
    for one in answers:
        if kept is not None:
            kept.append(one)
        if format == "text":
            yield solver.problem.write(one.answer)
            continue
        entry: dict[str, Any] = {
            "points": one.points.tolist() if solver.problem.axes > 1 else one.points[:, 0].tolist(),
            "answer": [item + 1 for item in one.answer],
            "probability": one.probability,
        }
        if "length" in solver.problem.measures:
            entry["length"] = solver.problem.length(one.points, one.answer)
        yield json.dumps(entry)


def _drawn(solver: "PointingPredictor", answers: "list[Pointed]", paths: list[Path]) -> None:
    """The answers into files, or, without any, below their lines in the terminal."""
    from regard.tasks.pointing.view import answers_view

    view = answers_view(solver.problem, answers)
    for path in paths:
        from regard.views.write import write

        write(view, path)
        say(f"Written to {path}.")
    if not paths:
        from regard.views.terminal.terminal import terminal

        out(terminal(view, color=colored()))
