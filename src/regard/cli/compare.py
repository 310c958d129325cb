"""`regard compare`: runs side by side."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.app import app
from regard.cli.command import command
from regard.cli.console import out, table

Runs = Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs.", show_default=False)]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How results are written.")]


@command(app, "compare", examples="regard compare runs/additive runs/dot\nregard compare runs/* --format json")
def compare(runs: Runs, format: Format = "text") -> None:
    """Compare runs side by side.

    Shows where their settings differ and what came of each. What `regard evaluate` measured is shown too.
    """
    from regard.tasks.compare import summaries

    told = summaries(runs)
    if format == "json":
        out(json.dumps(told, ensure_ascii=False, indent=2))
        return
    head, *names = dict.fromkeys(name for summary in told for name in summary)  # the runs' names come first
    rows = [[name, *(_shown(summary.get(name)) for summary in told)] for name in names]
    out(table([head, *(summary[head] for summary in told)], rows))


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
