"""`regard demo`: a translator that learns while you watch, and then shows what it attends to."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import Threads, command
from regard.cli.console import colored, notice, out, progress, say

To = Annotated[Literal["fr", "zh", "de", "es"], typer.Option("--to", help="Language that English is translated to.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random choice.")]
OutFolder = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for the run, the page and the picture. [default: the next free one]"),
]
Epochs = Annotated[
    int | None, typer.Option("--epochs", min=1, help="Train for so many epochs, in place of the recipe's.")
]

_SHOWN = 3


@command(app, "demo", examples="regard demo\nregard demo --to zh\nregard demo --to de --seed 1 --out demo-de")
def demo(
    to: To = "fr", seed: SeedOption = 0, out_: OutFolder = None, epochs: Epochs = None, threads: Threads = None
) -> None:
    """Train a small translator, and see what it attends to.

    It takes two to three minutes. The phrases are dates, times, durations, prices and numbers. The alignment is
    learned: training data have no alignments.
    """
    from regard.tasks.core.runs import refuse_taken

    folder = out_ or _free(to)
    refuse_taken(folder)  # before anything is announced
    say(f"Learning to translate English dates, times, prices and numbers (en → {to}). It takes two to three minutes.")
    from regard.tasks.experiments import demo as task

    done = task.demo(to, folder, seed=seed, epochs=epochs, threads=threads, progress=progress(), say=notice)

    measures, baselines = done.evaluation.measures, done.evaluation.baselines
    out(f"exact match on {done.evaluation.items} phrases never seen: {measures['exact']:.3f}")
    out(
        f"alignment error rate (learned without alignments): {measures['aer']:.3f}; "
        f"along the diagonal {baselines['diagonal']:.3f}, a random word each {baselines['uniform']:.3f}"
    )
    out()
    from regard.views.terminal.terminal import terminal
    from regard.views.write import write

    view = task.some_alignments(done.evaluation, _SHOWN)
    out(terminal(view, width=shutil.get_terminal_size().columns, color=colored()))
    out()
    out(f"page     {write(view, folder / 'alignment.html')}")
    out(f"picture  {write(view, folder / 'alignment.png')}")
    say(f'Try your own: {_program()} translate {shlex.quote(str(folder))} "at 7:25 PM on March 3, 1987"')


def _program() -> str:
    """How this program is called from here: by its name where a shell finds it, else as it was started."""
    if shutil.which("regard"):
        return "regard"
    return (
        shlex.quote(sys.argv[0]) if Path(sys.argv[0]).stem == "regard" else f"{shlex.quote(sys.executable)} -m regard"
    )


def _free(to: str) -> Path:
    number = 1
    while (folder := Path("runs") / f"demo-{to}-{number}").exists():
        number += 1
    return folder
