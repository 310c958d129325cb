"""What every command shares: --debug, --quiet, the exit codes, and errors without a traceback."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.console import Voice, complain, flush, speaking
from regard.errors import ConfigError, RegardError

GIVEN = "given"
DONE, FAILED, CALLED_WRONGLY, INTERRUPTED = 0, 1, 2, 130

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel="Everywhere")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say only results, warnings and errors.", rich_help_panel="Everywhere")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.", show_default=False)]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of every random choice.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, help="Threads to compute with; all cores if not given.")
]


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Turn an error into a message and an exit code: 2 for what was called wrongly, 1 for what failed.

    Raises:
        typer.Exit: with that code, in place of any error; with `debug` the error itself.
    """
    debug = debug or Voice.debug
    try:
        yield
    except BrokenPipeError:
        raise  # the reader left, as `| head` does; typer leaves quietly
    except (RegardError, OSError) as error:
        if debug:
            raise
        complain(_message(error))
        code = CALLED_WRONGLY if isinstance(error, ConfigError) else FAILED
        raise typer.Exit(getattr(error, "exit_code", code)) from error  # an interrupted training says its own
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if debug:
            raise
        if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):
            complain("there is not enough memory. Give a smaller model, smaller batches or shorter lines.")
            raise typer.Exit(FAILED) from error
        complain(f"a fault of regard itself, {type(error).__name__}: {error}. Run it again with --debug and report it.")
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as stop:
        if debug:
            raise
        complain("stopped by the user.")
        raise typer.Exit(INTERRUPTED) from stop


def _message(error: Exception) -> str:
    """An error's message; the system's own in words and not as a number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def command(
    app: typer.Typer, name: str, examples: str = "", extra: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: enter a function as a command that also takes --debug and --quiet.

    Args:
        app: the program.
        name: the command's name.
        examples: lines of shell, shown at the end of the command's help.
        extra: options that are not known here belong to the function's last argument, a list.

    A function with an argument `given` gets there the options that stand on the command line, as its help spells them.
    """

    def enter(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(debug: bool, quiet: bool, **options: Any) -> None:
            context = options.pop("context")
            if GIVEN in signature.parameters:
                options[GIVEN] = _given(context)
            with speaking(quiet), reported(debug):
                function(**options)
                flush()

        shared = {"debug": Debug, "quiet": Quiet}
        signature = inspect.signature(function)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in signature.parameters.items()
            if name != GIVEN
        ]
        own.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
        both = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
            for option, kind in shared.items()
        ]
        run.__signature__ = signature.replace(parameters=own + both)  # type: ignore[attr-defined]
        run.__annotations__ = {**function.__annotations__, **shared, "context": typer.Context}
        run.__annotations__.pop(GIVEN, None)
        del run.__wrapped__  # typer would read the annotations through it
        settings = {"ignore_unknown_options": True} if extra else {}
        app.command(name, epilog=_kept(examples), context_settings=settings)(run)
        return run

    return enter


def _given(context: Any) -> list[str]:
    given = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if parameter.param_type_name == "option" and source is not None and source.name == "COMMANDLINE":
            given.append(max(parameter.opts, key=len))
    return given


def whole_numbers(option: str, text: str, least: int = 0) -> list[int]:
    """The different whole numbers of an option such as `--seeds 0,1,2`.

    Raises:
        ConfigError: one of them is no whole number, is less than `least`, or comes twice.
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(
            f"{option} {text!r}: expected whole numbers separated by commas, as in {least},{least + 1},{least + 2}"
        ) from error
    if min(numbers) < least or len(set(numbers)) < len(numbers):
        raise ConfigError(f"{option} {text!r}: expected different numbers, {least} or greater")
    return numbers


def _kept(examples: str) -> str | None:
    """Examples for the end of a help, whose lines are kept as they are (the mark is click's)."""
    lines = [line.strip() for line in examples.strip().splitlines() if line.strip()]
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else None
