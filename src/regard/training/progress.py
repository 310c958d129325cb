"""How training is reported: a live bar in a terminal, plain lines elsewhere, or nothing."""

import sys
import time
from types import TracebackType
from typing import Literal, Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from regard.errors import ConfigError, nearest

Style = Literal["auto", "live", "lines", "silent"]
_REDRAW = 0.1  # seconds between two redrawings of the bar


@runtime_checkable
class Reporter(Protocol):
    """Reports how training goes; entered before the first update and left after the last."""

    def __enter__(self) -> "Reporter": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, step: int, done: float, left: float | None, numbers: dict[str, float], line: bool) -> None:
        """After each update.

        Args:
            step: updates made.
            done: the part of the run that is done, 0 to 1.
            left: seconds to the end at the pace so far; None before there is one.
            numbers: loss, tokens_per_second and the like.
            line: whether `numbers` is also a new line of `metrics.jsonl`.
        """
        ...

    def validated(self, step: int, metrics: dict[str, float], best: bool) -> None:
        """After each validation."""
        ...

    def say(self, message: str) -> None:
        """A message for the user."""
        ...


def reporter(style: str, console: Console | None = None) -> Reporter:
    """The reporter of that name.

    Args:
        style: `live`, `lines`, `silent`, or `auto`: live in a terminal, lines elsewhere.
        console: where to; standard error by default, so that standard output holds results alone.

    Raises:
        ConfigError: an unknown style.
    """
    console = console or Console(file=sys.stderr)
    if style == "auto":
        style = "live" if console.is_terminal else "lines"
    makers = {"live": lambda: Live(console), "lines": lambda: Lines(console), "silent": Silent}
    if style not in makers:
        raise ConfigError(f"no progress is named {style!r}.{nearest(style, [*makers, 'auto'])}")
    return makers[style]()


class Silent:
    """Says nothing."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, step: int, done: float, left: float | None, numbers: dict[str, float], line: bool) -> None:
        """Nothing."""

    def validated(self, step: int, metrics: dict[str, float], best: bool) -> None:
        """Nothing."""

    def say(self, message: str) -> None:
        """Nothing."""


class Lines(Silent):
    """One plain line for each line of `metrics.jsonl`."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def update(self, step: int, done: float, left: float | None, numbers: dict[str, float], line: bool) -> None:
        """A line, if `metrics.jsonl` gets one."""
        if line:
            self.say(f"step {step} ({done:.0%})  {_words(numbers)}  {_time_left(left)}")

    def validated(self, step: int, metrics: dict[str, float], best: bool) -> None:
        """A line with the metrics."""
        self.say(f"step {step}  validation: {_words(metrics)}{'  (best so far)' if best else ''}")

    def say(self, message: str) -> None:
        """The message as it is."""
        self.console.print(message, markup=False, highlight=False, soft_wrap=True)


class Live(Lines):
    """A bar with the latest numbers, and a line above it for each validation."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=10)),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[numbers]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            expand=True,
        )
        self._task: TaskID = self._bar.add_task("training", total=1.0, numbers="", left="")
        self._drawn = 0.0

    def __enter__(self) -> "Live":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, step: int, done: float, left: float | None, numbers: dict[str, float], line: bool) -> None:
        """Redraw the bar, ten times a second at most."""
        now = time.monotonic()
        if done < 1 and now - self._drawn < _REDRAW:
            return
        self._drawn = now
        self._bar.update(
            self._task, description=f"step {step}", completed=done, numbers=_words(numbers), left=_time_left(left)
        )


def _words(numbers: dict[str, float]) -> str:
    shown = []
    for name, value in numbers.items():
        if name == "tokens_per_second":
            shown.append(f"{value:,.0f} tokens/s")
        else:
            shown.append(f"{name} {value:.4g}")
    return "  ".join(shown)


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"
