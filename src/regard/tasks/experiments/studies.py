"""Studies: one question, and rows of settings on equal terms that answer it; each one YAML file in the wheel.

A study is an experiment with rows: a row is the same experiment but for the few settings in which it differs. A later
question (orders of reading, lengths beyond those of training) is a new file and no new code.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import Field, field_validator, model_validator

from regard.errors import ConfigError, nearest
from regard.tasks.core.config import merge
from regard.tasks.core.settings import settings_of
from regard.tasks.experiments import experiment
from regard.tasks.experiments.experiment import Experiment, Part

_ROOM = "studies"

TRAINING_COLUMNS = (
    "tokens_per_second",
    "tokens_per_processor_second",
    "parameters",
    "steps",
    "minutes",
    "processor_minutes",
)
"""What a run's `results.json` says of its training; the other columns of a table are measures of its task."""


class Row(Part):
    """One row of the table."""

    name: str = Field(pattern="^[a-z0-9-]+$")
    title: str = Field(description="What it is, in a few words, as the table shows it.")
    config: dict[str, Any] = Field(description="The settings in which it differs.")


class Lengths(Part):
    """A measure by length, as a table and as lines in a picture."""

    measure: str = Field(description="A measure of the task.")
    rows: list[str] | None = Field(None, min_length=1, description="The rows that are shown; all if left out.")


class Study(Experiment):
    """One question and the rows that answer it."""

    terms: list[str] = Field(min_length=1, description="What is equal for all rows, and what else a reader must know.")
    columns: list[str] = Field(min_length=1, description="What the table shows: measures, and `TRAINING_COLUMNS`.")
    lengths: list[Lengths] = Field(default_factory=list, description="Measures by length; one needs no list.")
    rows: list[Row] = Field(min_length=1)
    also: list[str] = Field(default_factory=list, description="Studies of the same question that are run after it.")

    @field_validator("lengths", mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        return [given] if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _named(self) -> "Study":
        for place, column in enumerate(self.columns):
            self.refuse_unknown(f"columns.{place}", column, TRAINING_COLUMNS)
        for lengths in self.lengths:
            self.refuse_unknown("lengths.measure", lengths.measure, settings_of(self.task).by_length)
        names = [row.name for row in self.rows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"each row needs a name of its own; given twice: {', '.join(twice)}")
        for name in (name for lengths in self.lengths for name in lengths.rows or []):
            if name not in names:
                raise ValueError(f"`lengths` names no row with {name!r}.{nearest(name, names)}")
        return self

    def experiment(self, row: Row) -> Experiment:
        """What one row runs."""
        return Experiment(
            name=self.name,
            title=row.title,
            minutes=self.minutes,
            data=self.data,
            evaluate=self.evaluate,
            edges=self.edges,
            config=merge(self.config, row.config),
        )

    def choose(self, names: Sequence[str] | None) -> list[Row]:
        """The rows of these names, in the study's order; all for None.

        Raises:
            ConfigError: the study has no row of one of these names.
        """
        known = {row.name: row for row in self.rows}
        for name in names or []:
            if name not in known:
                raise ConfigError(f"{self.name} has no row named {name!r}.{nearest(name, known)}")
        return [row for row in self.rows if names is None or row.name in names]


def shipped() -> list[Study]:
    """All studies of the wheel, by name."""
    return list(experiment.shipped(Study, _ROOM).values())


def find(name: str) -> Study:
    """The study of that name, or in the YAML file of that path."""
    return experiment.find(Study, _ROOM, name)


def find_all(name: str) -> list[Study]:
    """That study, and those that are run with it."""
    first = find(name)
    return [first, *map(find, first.also)]
