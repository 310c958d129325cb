"""`regard worked`: numbers worked by hand in the literature, computed step by step."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.app import app
from regard.cli.command import command
from regard.cli.console import out, say, typed, warn
from regard.errors import ConfigError, nearest

Name = Annotated[str | None, typer.Argument(help="W1, W2, …; all are listed if not given.", show_default=False)]
Numbers = Annotated[
    list[str] | None,
    typer.Argument(metavar="--NAME VALUE", help="An example's own options, as it prints them.", show_default=False),
]
Language = Annotated[Literal["en", "zh"], typer.Option("--lang", help="Language of the text.")]
All = Annotated[bool, typer.Option("--all", help="Work every one.")]
Run = Annotated[Path | None, typer.Option(help="W4 by this trained translator; --source and --target are then texts.")]
Format = Annotated[Literal["text", "json"], typer.Option("--format", help="With --run: how its numbers are written.")]

_TEXT = "I love you"


@command(
    app,
    "worked",
    examples="""
    regard worked
    regard worked W2
    regard worked W2 --lang zh
    regard worked W2 --scores "0.3, 2.8, 0.2, 0.1, 0.1, 0.0, 2.9"
    regard worked W4 --run runs/textbook-en-fr/seed-0
    regard worked W4 --run runs/de-en --source "Ein Hund rennt." --format json
    """,
    extra=True,
)
def worked(
    name: Name = None,
    numbers: Numbers = None,
    lang: Language = "en",
    all_: All = False,
    run: Run = None,
    format: Format = "text",
) -> None:
    """Work a number of the literature step by step.

    With your own numbers, if you give an example's options; W4 also by a trained translator.
    """
    from regard.worked.table import catalogue, run as work, run_all

    options = _options(numbers or [])
    if run is not None:
        if all_ or name is None or name.upper() != "W4":
            raise ConfigError("--run has a translator do one example: regard worked W4 --run RUN")
        _translate(run, options, lang, format)
    elif format == "json":
        raise ConfigError(
            "--format json writes the numbers of a translator; name its run too: regard worked W4 --run RUN"
        )
    elif all_:
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
        out(work(name, options, lang).rstrip("\n"))


def _translate(run: Path, options: dict[str, str], lang: Literal["en", "zh"], format: str) -> None:
    """W4's six steps as the translator of a run takes them."""
    known = ("source", "target")
    for option in options:
        if option not in known:
            raise ConfigError(f"with --run there is no input --{option}.{nearest(option, known)}")
    texts = {name: typed(text) for name, text in options.items()}

    from regard.tasks.core.load import load
    from regard.tasks.translation.steps import translation_steps
    from regard.worked.translated import show_translated, to_json

    steps = translation_steps(load(run), texts.get("source", _TEXT), texts.get("target"), str(run))
    for note in steps.notes:
        warn(note)
    if format == "json":
        out(json.dumps(to_json(steps), ensure_ascii=False, indent=2))
    else:
        out(show_translated(steps, lang).rstrip("\n"))


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
