"""`regard show`: what a model attends to, step by step, as a picture."""

import inspect
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import RunFolder, Threads, command
from regard.cli.console import colored, out, say, typed, warn
from regard.cli.searching import Beam, search_from
from regard.errors import ConfigError

Text = Annotated[
    str | None,
    typer.Argument(
        help="What the model reads, as the text to translate; - reads one line of standard input. "
        "Left out, a task that can make an example draws one.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None, typer.Option("--target", help="Show how the model reads this translation, in place of its own.")
]
Posterior = Annotated[
    bool,
    typer.Option(
        "--posterior",
        help="Beside the weights, the posterior of the links: where each word came from, once it is known.",
    ),
]
Heads = Annotated[
    bool, typer.Option("--heads", help="Every layer and head of a Transformer; a file shows them all, in a grid.")
]
Steps = Annotated[
    bool,
    typer.Option("--steps", help="How the text was generated: each step's attention, and its most probable tokens."),
]
Length = Annotated[int | None, typer.Option("--length", min=1, help="Length of the generated example.")]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the generated example.")]
Out = Annotated[
    list[Path] | None, typer.Option("--out", help="Write .html, .png, .svg, .json or .csv; may be repeated.")
]
Units = Annotated[
    Literal["pieces", "words"],
    typer.Option("--units", help="What a row and a column stands for; pieces are the model's tokens."),
]
Language = Annotated[Literal["en", "zh"], typer.Option("--lang", help="Language of the notes.")]


@command(
    app,
    "show",
    examples="""
    regard show runs/de-en "Ein Hund rennt im Schnee ."
    regard show runs/de-en "Ein Hund rennt im Schnee ." --out alignment.html --out alignment.png
    regard show runs/de-en "Ein Hund rennt ." --target "A dog is running ." --posterior
    regard show runs/de-en "Ein Hund rennt ." --heads --out heads.html
    regard show runs/de-en "Ein Hund rennt ." --steps
    regard show runs/copy --length 20 --out memory.png
    """,
)
def show(
    given: list[str],
    run: RunFolder,
    text: Text = None,
    target: Target = None,
    out_: Out = None,
    beam: Beam = None,
    units: Units = "pieces",
    posterior: Posterior = False,
    heads: Heads = False,
    steps: Steps = False,
    length: Length = None,
    seed: SeedOption = None,
    lang: Language = "en",
    threads: Threads = None,
) -> None:
    """Show what a model attended to.

    Of a translation a row is a token of it, a column a token of the source, and each number its weight.
    """
    from regard.cli.inputs import one_line, warn_of_a_file
    from regard.tasks.core.runs import config_of
    from regard.tasks.core.settings import settings_of
    from regard.views.write import check_ending, write

    line = None if text is None else one_line(text)
    for path in out_ or []:
        check_ending(path)  # before the model is loaded
    tree = config_of(run)
    if text is not None and not settings_of(str(tree.get("task"))).takes_a_file:
        warn_of_a_file(text)
    options: dict[str, Any] = {
        "target": None if target is None else typed(target),
        "units": units,
        "posterior": posterior,
        "heads": heads,
        "steps": steps,
        "length": length,
        "seed": seed,
    }

    from regard.tasks.core.load import load
    from regard.tasks.core.task import find_task

    task = find_task(tree)
    known = inspect.signature(task.view).parameters
    if "search" in known:
        options["search"] = search_from(run, beam=beam, n_best=1)
    for option in given:
        name = option.removeprefix("--")
        if name in (*options, "beam") and name not in known and not (name == "beam" and "search" in known):
            raise ConfigError(f"{option} says nothing about a run of {tree['task']}; leave it out")
    own = {name: value for name, value in options.items() if name in known and value is not None}
    view = task.view(load(run, threads=threads), line, language=lang, **own)
    for note in view.notes if out_ else ():  # the terminal's own picture ends with them
        warn(note)
    if not out_:
        from regard.views.terminal.terminal import terminal

        out(terminal(view, width=shutil.get_terminal_size().columns, color=colored()))
    for path in out_ or []:
        write(view, path)
        say(f"Written to {path}.")
