"""`regard show`: where the model looks, word by word, as a picture."""

import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import Threads, command
from regard.cli.console import colored, out, say, typed, warn
from regard.cli.searching import Beam, search_from

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.", show_default=False)]
Text = Annotated[str, typer.Argument(help="The text to translate; - reads one line of standard input.")]
Target = Annotated[
    str | None, typer.Option("--target", help="Show how the model reads this translation, in place of its own.")
]
Out = Annotated[
    list[Path] | None, typer.Option("--out", help="Write .html, .png, .svg, .json or .csv; may be repeated.")
]
Units = Annotated[
    Literal["pieces", "words"], typer.Option("--units", help="What a row and a column is; pieces are the model's own.")
]
Language = Annotated[Literal["en", "zh"], typer.Option("--lang", help="Language of the notes.")]


@command(
    app,
    "show",
    examples="""
    regard show runs/de-en "Ein Hund rennt im Schnee ."
    regard show runs/de-en "Ein Hund rennt im Schnee ." --out alignment.html --out alignment.png
    regard show runs/de-en "Ein Hund rennt ." --target "A dog is running ."
    """,
)
def show(
    run: RunFolder,
    text: Text,
    target: Target = None,
    out_: Out = None,
    beam: Beam = None,
    units: Units = "pieces",
    lang: Language = "en",
    threads: Threads = None,
) -> None:
    """Show where a translation looked.

    A row is a piece of the translation, a column a piece of the source, and each number how much of it was read.
    """
    from regard.cli.inputs import one_line
    from regard.views.write import check_ending, write

    line = one_line(text)
    for path in out_ or []:
        check_ending(path)  # before the model is loaded
    search = search_from(run, beam=beam, n_best=1)

    from regard.tasks.load import load

    translator = load(run, threads=threads)
    given = None if target is None else typed(target)
    view = translator.view(line, target=given, search=search, units=units, language=lang)
    for note in view.notes:
        warn(note)
    if not out_:
        from regard.views.terminal import terminal

        out(terminal(view, width=shutil.get_terminal_size().columns, color=colored()))
    for path in out_ or []:
        write(view, path)
        say(f"Written to {path}.")
