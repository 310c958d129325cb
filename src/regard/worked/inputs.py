"""The user's own numbers: from text to lists and tables, or an error that says what was expected."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.errors import ConfigError, nearest
from regard.worked.example import Input, Text

LIMIT = 1000
"""Numbers go from −LIMIT to LIMIT unless an input says otherwise: far beyond it, products overflow."""


def number(name: str, default: str, en: str, zh: str, least: int | float = -LIMIT, most: int | float = LIMIT) -> Input:
    """One number."""
    return Input(name, default, Text(en, zh), "number", (), least, most)


def count(name: str, default: str, en: str, zh: str, least: int = 1, most: int = 10**9) -> Input:
    """A whole number."""
    return Input(name, default, Text(en, zh), "count", (), least, most)


def numbers(
    name: str,
    default: str,
    en: str,
    zh: str,
    axis: str | int,
    least: int | float = -LIMIT,
    most: int | float = LIMIT,
) -> Input:
    """A list: "0.3, 2.8"."""
    return Input(name, default, Text(en, zh), "numbers", (axis,), least, most)


def counts(name: str, default: str, en: str, zh: str, axis: str, least: int = 1, most: int = 10**9) -> Input:
    """A list of whole numbers: "3, 1, 2"."""
    return Input(name, default, Text(en, zh), "counts", (axis,), least, most)


def rows(name: str, default: str, en: str, zh: str, axes: tuple[str | int, str | int]) -> Input:
    """A table: "2, 1; 0, 1"."""
    return Input(name, default, Text(en, zh), "rows", axes, -LIMIT, LIMIT)


def words(name: str, default: str, en: str, zh: str, axis: str | int) -> Input:
    """A list of words: "I, love, you"; a comma between spaces that is itself a word is written as "，"."""
    return Input(name, default, Text(en, zh), "words", (axis,))


def read(
    worked: str, inputs: Sequence[Input], options: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str], frozenset[str]]:
    """The values of all inputs, their texts, and the names of those that the user gave.

    Args:
        worked: the row's id, for the errors.
        inputs: what the row takes.
        options: text by the option's name; leading dashes do not matter, nor does "_" for "-".

    Raises:
        ConfigError: with everything that is wrong: unknown names, text that is not numbers, sizes that do not fit.
    """
    known = {each.name: each for each in inputs}
    given = {name.lstrip("-").replace("_", "-"): text for name, text in options.items()}
    wrong = []
    for name in given:
        if name not in known:
            offered = nearest(name, known) if known else " It takes none."
            wrong.append(f"there is no input --{name}.{offered}")
    texts = {name: given.get(name, each.default) for name, each in known.items()}
    values: dict[str, Any] = {}
    for name, each in known.items():
        try:
            values[name] = _parse(each, texts[name])
        except ValueError as error:
            wrong.append(f"--{name} {error}")
    wrong += _misfits([known[name] for name in values], values, given)
    if wrong:
        raise ConfigError(f"{worked}: " + "\n".join(wrong))
    return values, texts, frozenset(given)


def _parse(each: Input, text: str) -> Any:
    if each.kind == "words":
        return [word for word in (part.strip() for part in text.split(",")) if word]
    if each.kind == "rows":
        table = [_numbers(each, line) for line in re.split(r"[;；\n]", text.strip().strip(";；"))]
        widths = {len(line) for line in table}
        if len(widths) > 1:
            counts = ", ".join(str(len(line)) for line in table)
            raise ValueError(f"has rows of different lengths ({counts}); expected a table such as {each.default!r}")
        return table
    if re.search(r"[;；\n]", text):
        raise ValueError(f"is one list and takes no rows (';'): got {text!r}, expected such as {each.default!r}")
    values = _numbers(each, text)
    if each.kind in ("count", "counts"):
        for value in values:
            if value != int(value):
                raise ValueError(f"has {value:g}; expected whole numbers such as {each.default!r}")
        values = [int(value) for value in values]
    if each.kind in ("numbers", "counts"):
        return values
    if len(values) != 1:
        raise ValueError(f"expects one number such as {each.default}, got {len(values)}: {text!r}")
    return values[0]


def _numbers(each: Input, text: str) -> list[float]:
    """Numbers separated by commas (of either script) or spaces."""
    parts = [part for part in re.split(r"[,，、\s]+", text.strip()) if part]
    if not parts:
        raise ValueError(f"is empty, or has an empty row; expected such as {each.default!r}")
    values: list[float] = []
    for part in parts:
        try:
            value = float(part)
        except ValueError:
            raise ValueError(f"has {part!r}, which is not a number; expected such as {each.default!r}") from None
        if not math.isfinite(value):
            raise ValueError(f"has {part!r}; expected finite numbers such as {each.default!r}")
        if each.least is not None and value < each.least:
            raise ValueError(f"has {part}; the least allowed is {each.least:g}")
        if each.most is not None and value > each.most:
            raise ValueError(f"has {part}; the most allowed is {each.most:g}")
        values.append(value)
    return values


_UNITS: dict[str, tuple[str, ...]] = {
    "numbers": ("numbers",),
    "counts": ("numbers",),
    "words": ("words",),
    "rows": ("rows", "numbers per row"),
}
_SIZES: dict[str, Callable[[Any], tuple[int, ...]]] = {
    "numbers": lambda value: (len(value),),
    "counts": lambda value: (len(value),),
    "words": lambda value: (len(value),),
    "rows": lambda value: (len(value), len(value[0])),
}


def _misfits(inputs: Sequence[Input], values: Mapping[str, Any], given: Mapping[str, str]) -> list[str]:
    """Sizes of one name must be one number; each misfit names both sides."""
    first: dict[str, tuple[int, str, str]] = {}
    wrong = []
    for each in inputs:
        if not each.axes:
            continue
        for axis, size, unit in zip(each.axes, _SIZES[each.kind](values[each.name]), _UNITS[each.kind], strict=True):
            if isinstance(axis, int):
                if size != axis:
                    wrong.append(f"--{each.name} has {_counted(size, unit)}, expected {axis}, such as {each.default!r}")
                continue
            known, where, other = first.setdefault(axis, (size, unit, each.name))
            if known == size:
                continue
            sizes = f"--{other} has {_counted(known, where)} and --{each.name} has {_counted(size, unit)}"
            left = [name for name in (other, each.name) if name not in given]
            missing = "".join(f"; --{name} was not given, so give it too" for name in left)
            wrong.append(f"{sizes}; expected as many ({axis}){missing}")
    hint = any(each.kind == "rows" for each in inputs)
    return [f"{message}. Separate numbers by ',' and rows by ';'." if hint else f"{message}." for message in wrong]


def _counted(size: int, unit: str) -> str:
    """A size and its unit, as in 1 number per row: the first s of a unit is its plural."""
    return f"{size} {unit.replace('s', '', 1) if size == 1 else unit}"
