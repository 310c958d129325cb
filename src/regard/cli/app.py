"""The program: its commands, and how it starts."""

from importlib import import_module
from typing import Annotated

import typer

from regard.cli.console import Voice, open_streams

app = typer.Typer(
    name="regard",
    help="Attention, the whole family: score, normalize, refocus, read; with a "
    "translator that shows what it attends to.",
    epilog="Exit codes: 0 done, 1 failed or a band missed, 2 called wrongly, 130 or 143 stopped by a signal.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich's takes 0.4 s to load
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(asked: bool) -> bool:
    if asked:
        from importlib.metadata import version

        typer.echo(f"regard {version('regard')}")
        raise typer.Exit()
    return asked


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only results, warnings and errors.")] = False,
) -> None:
    """Attention, the whole family: score, normalize, refocus, read; with a translator that shows what it attends to."""
    Voice.debug, Voice.quiet = debug, quiet  # the command's own options, if given, join these


def run() -> None:
    """Start the program on the command line's arguments."""
    open_streams()
    app(prog_name="regard")


# Each file enters its commands into `app`, in the order of the help; none imports torch before a command runs.
for _name in (
    "demo",
    "train",
    "translate",
    "solve",
    "caption",
    "write",
    "fill",
    "classify",
    "tag",
    "answer",
    "score",
    "align",
    "evaluate",
    "show",
    "compare",
    "average",
    "recipes",
    "study",
    "worked",
    "family",
    "explain",
    "schema",
):
    import_module(f"regard.cli.{_name}")
