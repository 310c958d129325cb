"""What a worked example is: inputs, steps, and the literature's number beside the one computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Language = Literal["en", "zh"]
Number = bool | int | float
Value = Number | list[Any]


class Text(NamedTuple):
    """The same words in both languages."""

    en: str
    zh: str

    def to(self, language: Language) -> str:
        """The words in one language."""
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True)
class Printed:
    """The answer as the literature prints it, for the literature's own numbers.

    Attributes:
        numbers: shaped as the step's value.
        places: decimal places that are printed; the computed number, rounded to them, must be the same.
    """

    numbers: Value
    places: int = 4

    def agrees(self, value: Value) -> bool:
        """Whether the computed value, rounded to the printed places, is the printed one."""
        computed, printed = flatten(value), flatten(self.numbers)
        half = 0.5 * 10**-self.places * (1 + 1e-9)
        return len(computed) == len(printed) and all(
            abs(one - other) <= half for one, other in zip(computed, printed, strict=True)
        )


@dataclass(frozen=True)
class Claim:
    """What the literature says in words, tested on the numbers computed.

    Attributes:
        text: the claim.
        holds: whether the computed numbers bear it out.
        always: whether it must hold for any numbers (an identity), or only for the literature's own.
    """

    text: Text
    holds: bool
    always: bool = True


@dataclass(frozen=True)
class Step:
    """One line of the work.

    Attributes:
        label: what is computed.
        formula: how, in the field's notation.
        value: a number, a list or a list of rows.
        check: the literature's number or claim, if it gives one for this step.
        places: decimal places to show.
        rows, columns: what each row and each column is, if that has names.
    """

    label: Text
    formula: str
    value: Value
    check: Printed | Claim | None = None
    places: int = 4
    rows: Sequence[str] | None = None
    columns: Sequence[str] | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether the literature's number and ours agree; None where there is nothing to compare."""
        if self.check is None:
            return None
        return self.check.holds if isinstance(self.check, Claim) else self.check.agrees(self.value)


@dataclass(frozen=True)
class Input:
    """A number, list or table that the user may give in place of the literature's.

    Attributes:
        name: of the command line's option, without dashes.
        default: the literature's, written as the user would type it.
        meaning: what it is.
        kind: number, count (a whole number), numbers or counts (lists), rows (a table) or words.
        axes: the name of each size, or the size itself; inputs that share a name must have the same size.
        least, most: bounds of every number in it, inclusive.
    """

    name: str
    default: str
    meaning: Text
    kind: Literal["number", "count", "numbers", "counts", "rows", "words"]
    axes: tuple[str | int, ...] = ()
    least: int | float | None = None
    most: int | float | None = None


@dataclass(frozen=True)
class Worked:
    """One row of the table of numbers worked by hand.

    Attributes:
        id: "W1" and so on.
        title, source: what it is about and who worked it.
        answer: the literature's answer in a line.
        inputs: what the user may change.
        steps: from the values of the inputs, by name, to the steps; computed by the library in float64.
    """

    id: str
    title: Text
    source: Text
    answer: Text
    inputs: tuple[Input, ...]
    steps: Callable[[dict[str, Any]], list[Step]]


@dataclass(frozen=True)
class Work:
    """A worked example with its numbers put in.

    Attributes:
        worked: the row.
        texts: every input as text, by name.
        own: the names of those that the user gave.
        steps: computed; checks that belong to the literature's numbers alone are gone if any input is the user's.
    """

    worked: Worked
    texts: dict[str, str]
    own: frozenset[str]
    steps: list[Step] = field(default_factory=list)

    def value(self, label: str) -> Value:
        """The value of the step of that (English) label."""
        return next(step.value for step in self.steps if step.label.en == label)


def flatten(value: Value) -> list[Number]:
    """The numbers of a value, row by row."""
    if isinstance(value, list):
        return [number for part in value for number in flatten(part)]
    return [value]
