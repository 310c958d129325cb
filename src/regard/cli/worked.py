"""`regard worked`: numbers worked by hand in the literature, computed step by step."""

from typing import Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import command
from regard.cli.console import out, say
from regard.errors import ConfigError

Name = Annotated[str | None, typer.Argument(help="W1, W2, …; all are listed if not given.", show_default=False)]
Numbers = Annotated[
    list[str] | None,
    typer.Argument(metavar="--NAME VALUE", help="An example's own options, as it prints them.", show_default=False),
]
Language = Annotated[Literal["en", "zh"], typer.Option("--lang", help="Language of the text.")]
All = Annotated[bool, typer.Option("--all", help="Work every one.")]


@command(
    app,
    "worked",
    examples="""
    regard worked
    regard worked W2
    regard worked W2 --lang zh
    regard worked W2 --scores "0.3, 2.8, 0.2, 0.1, 0.1, 0.0, 2.9"
    """,
    extra=True,
)
def worked(name: Name = None, numbers: Numbers = None, lang: Language = "en", all_: All = False) -> None:
    """Work a number of the literature step by step.

    With your own numbers, if you give an example's options.
    """
    from regard.worked.table import catalogue, run, run_all

    options = _options(numbers or [])
    if all_:
        if name is not None or options:
            raise ConfigError("--all works every example with the literature's numbers; leave out names and numbers")
        out(run_all(lang).rstrip("\n"))
    elif name is None:
        if options:
            raise ConfigError("say which example the numbers are for, as in: regard worked W2 --scores …")
        for row, title in catalogue(lang):
            out(f"{row:<4} {title}")
        say("Work one of them: regard worked W2")
    else:
        out(run(name, options, lang).rstrip("\n"))


def _options(arguments: list[str]) -> dict[str, str]:
    """`--name value` and `--name=value` as a table."""
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            raise ConfigError(f'{argument!r} is not expected here; write an example\'s numbers as --name "1, 2, 3"')
        name, equals, value = argument[2:].partition("=")
        if not equals:
            following = next(rest, None)
            if following is None:
                raise ConfigError(f'--{name} has no value; write --{name} "1, 2, 3"')
            value = following
        if name in options:
            raise ConfigError(f"--{name} is given twice")
        options[name] = value
    return options
