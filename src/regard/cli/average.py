"""`regard average`: one run whose weights are the mean of others'."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.command import command
from regard.cli.console import out

Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN…", help="One run, or several of one beginning.", show_default=False)
]
Out = Annotated[Path, typer.Option("--out", help="Folder of the new run.", show_default=False)]
Last = Annotated[
    int | None,
    typer.Option("--last", min=2, help="Of one run: its newest checkpoints. [default: all that it kept]"),
]


@command(
    app,
    "average",
    examples="""
    regard average runs/de-en --last 2 --out runs/de-en-average
    regard average runs/rate-1 runs/rate-2 --out runs/both
    """,
)
def average(runs: Runs, out_: Out, last: Last = None) -> None:
    """Average weights into a new run.

    Of one run its last checkpoints, of which training.keep decides how many there are; of several their best weights,
    if they began alike (one seed, model and vocabulary). The new run translates as any does, but cannot be trained on.
    """
    from regard.tasks.core.runs import AVERAGED
    from regard.tasks.experiments.average import average as make

    made = make(runs, out_, last)
    for one in made[AVERAGED]:
        out(f"{one['weights']}\tsha256 {one['sha256'][:12]}…")
    out(f"the mean of these {len(made[AVERAGED])} weights is in {out_}")
