"""`regard recipes` and `regard reproduce`: the ledger of results, and running one of them."""

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.command import FAILED, Threads, command, whole_numbers
from regard.cli.console import colored, notice, out, progress, say, table, warn
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.views.view import View

List = Annotated[bool, typer.Option("--list", help="Print the ledger and leave.")]
Name = Annotated[str | None, typer.Argument(help="A recipe of the ledger, or a YAML file of one.", show_default=False)]
DataFolder = Annotated[Path | None, typer.Option("--data", help="Folder that holds the recipe's data files.")]
Seeds = Annotated[str, typer.Option("--seeds", help="Seeds to train with, separated by commas.")]
RunFolders = Annotated[Path | None, typer.Option("--run", help="Where the run folders go. [default: runs/NAME]")]
Unverified = Annotated[bool, typer.Option("--unverified", help="Continue with data files of another sha256.")]


@command(app, "recipes", examples="regard recipes\nregard recipes multi30k-bahdanau-short")
def recipes(name: Name = None) -> None:
    """Print the ledger of results that we reproduce.

    Published numbers, our band, our number; with a NAME, everything about that recipe.
    """
    if name is None:
        _print_ledger()
    else:
        _print_recipe(name)


@command(
    app,
    "reproduce",
    examples="""
    regard reproduce --list
    regard reproduce demo-en-zh --seeds 0,1,2
    regard reproduce multi30k-bahdanau-short --data ~/multi30k
    """,
)
def reproduce(
    name: Name = None,
    data: DataFolder = None,
    seeds: Seeds = "0",
    run: RunFolders = None,
    threads: Threads = None,
    unverified: Unverified = False,
    list_: List = False,
) -> None:
    """Train a recipe and compare with its band.

    The exit code is 1 when a number lies outside its band. A run that was begun continues.
    """
    if list_:
        _print_ledger()
        return
    if name is None:
        raise ConfigError("name a recipe, or see them all: regard recipes")
    numbers = whole_numbers("--seeds", seeds)

    from regard.cli.evaluate import print_evaluation
    from regard.tasks.core.task import find_task
    from regard.tasks.experiments.experiment import locate
    from regard.tasks.experiments.ledger import find
    from regard.tasks.experiments.reproduce import reproduce as run_recipe

    recipe = find(name)
    locate(recipe, data, unverified=unverified, warn=warn)
    say(f"{recipe.title}: about {recipe.minutes:g} minutes per seed on two cores.")
    folder = run or Path("runs") / recipe.name
    rows, reached = [], True
    for seed in numbers:
        say(f"seed {seed}:")
        done = run_recipe(
            recipe, folder / f"seed-{seed}", seed=seed, data=data, threads=threads, progress=progress(), say=notice
        )
        for note in done.evaluation.notes:
            warn(note)
        print_evaluation(done.evaluation)
        out()
        for band in recipe.bands:
            value = done.evaluation.measures.get(band.metric, math.nan)  # no links, no aer
            reached = reached and band.holds(value)
            verdict = "reached" if band.holds(value) else "MISSED"
            rows.append([str(seed), band.metric, f"{value:.4g}", str(band), verdict, f"{done.minutes:.1f}"])
    view = find_task(recipe.config).examples(done.loaded, done.evaluation)
    if view is not None:
        _show(view, folder)
    out(table(["seed", "measure", "ours", "band", "verdict", "minutes"], rows))
    say(f"The runs are in {folder}.")
    if not reached:
        raise typer.Exit(FAILED)


def _show(view: "View", folder: Path) -> None:
    """A few examples of what the last seed's model does, in the terminal and as one page."""
    from regard.views.terminal.terminal import terminal
    from regard.views.write import write

    out(terminal(view, width=shutil.get_terminal_size().columns, color=colored()))
    out()
    say(f"As a page: {write(view, folder / 'examples.html')}")


def _print_ledger() -> None:
    from regard.tasks.experiments.ledger import shipped

    rows = []
    for recipe in shipped():
        published = "–" if recipe.published.value is None else f"{recipe.published.value:g}"
        for band in recipe.bands:
            ours = recipe.ours.get(band.metric)
            measured = "–" if ours is None else f"{ours.value:g}"
            rows.append([recipe.name, band.metric, published, str(band), measured, f"{recipe.minutes:g}", recipe.paper])
    out(table(["recipe", "measure", "published", "band", "ours", "minutes", "paper"], rows))
    say("All about one of them: regard recipes NAME")


def _print_recipe(name: str) -> None:
    from regard.tasks.core.config import one_line
    from regard.tasks.experiments.ledger import find

    recipe = find(name)
    published = "none" if recipe.published.value is None else f"{recipe.published.value:g}"
    out(f"{recipe.name}: {recipe.title}")
    out(f"paper       {recipe.paper}")
    out(f"published   {published}; {' '.join(recipe.published.where.split())}")
    for band in recipe.bands:
        out(f"band        {band.metric} {band}")
    for metric, ours in recipe.ours.items():
        out(f"ours        {metric} {ours.value:g}: {' '.join(ours.note.split())}")
    out(f"minutes     {recipe.minutes:g} per seed on two cores")
    for deviation in recipe.deviations:
        out(f"deviation   {' '.join(deviation.split())}")
    if recipe.data is not None:
        out(f"data        {' '.join(recipe.data.origin.split())}")
        for file in recipe.data.files:
            out(f"            {file.sha256}  {file.name}")
    out(f"settings    {one_line(recipe.config)}")
