"""The table of worked examples, and what to do with it: list it, work one row, work all."""

from collections.abc import Mapping
from dataclasses import replace

from regard.errors import ConfigError, nearest
from regard.worked.example import Claim, Language, Step, Work, Worked
from regard.worked.inputs import read
from regard.worked.numbers import alignment, conventions, dictionary, local, memory, positions, scale, scores, sizes
from regard.worked.show import show

_GROUPS = (scores, scale, alignment, conventions, dictionary, local, positions, memory, sizes)
WORKED: dict[str, Worked] = {
    row.id: row for row in sorted((row for group in _GROUPS for row in group.ROWS), key=lambda row: int(row.id[1:]))
}


def catalogue(language: Language = "en") -> list[tuple[str, str]]:
    """The id and title of every row; needs no torch."""
    return [(row.id, row.title.to(language)) for row in WORKED.values()]


def find(name: str) -> Worked:
    """The row of that id, in capitals or not.

    Raises:
        ConfigError: no row has that id; with the nearest.
    """
    row = WORKED.get(name.strip().upper())
    if row is None:
        raise ConfigError(f"no worked example is named {name!r}.{nearest(name.strip().upper(), WORKED)}")
    return row


def work(name: str, options: Mapping[str, str] | None = None) -> Work:
    """Put numbers into a row and compute its steps by the library, in float64.

    Args:
        name: the row's id.
        options: the user's own inputs as text, by the option's name; the literature's for the rest.

    Raises:
        ConfigError: an unknown id, unknown options, text that is not numbers, or sizes that do not fit.
    """
    row = find(name)
    values, texts, own = read(row.id, row.inputs, options or {})
    steps = row.steps(values)
    return Work(row, texts, own, [_for_own_numbers(step) for step in steps] if own else steps)


def run(name: str, options: Mapping[str, str] | None = None, language: Language = "en") -> str:
    """One row as plain text, ready to print; see `work` for the arguments and errors."""
    return show(work(name, options), language)


def run_all(language: Language = "en") -> str:
    """Every row with the literature's numbers."""
    return "\n\n".join(run(name, {}, language) for name in WORKED)


def _for_own_numbers(step: Step) -> Step:
    """The step without what only the literature's own numbers must give."""
    general = isinstance(step.check, Claim) and step.check.always
    return step if general else replace(step, check=None)
