"""The ledger of recipes: results that we reproduce, each one YAML file in the wheel, with its paper, band and data."""

from collections.abc import Iterator

from pydantic import Field, model_validator

from regard.tasks.experiments import experiment
from regard.tasks.experiments.experiment import Experiment, Part

_ROOM = "recipes"


class Published(Part):
    """What the paper reports, and where in it."""

    value: float | None = Field(None, description="The published number; none if the paper has no comparable one.")
    where: str = Field(description="Where it was read (table, line), and on which data it holds.")


class Band(Part):
    """The numbers that count as a reproduction."""

    metric: str = Field(description="A measure of the task.")
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _has_an_edge(self) -> "Band":
        if self.at_least is None and self.at_most is None:
            raise ValueError("a band needs at_least, at_most or both")
        return self

    def holds(self, value: float) -> bool:
        """Whether the value lies in the band; NaN never does."""
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most) and value == value

    def __str__(self) -> str:
        low = [] if self.at_least is None else [f"≥ {self.at_least:g}"]
        return " and ".join([*low, *([] if self.at_most is None else [f"≤ {self.at_most:g}"])])


class Ours(Part):
    """What we measured, and on what."""

    value: float
    note: str = Field(description="Seeds, machine, and what else is needed to read the number.")


class Recipe(Experiment):
    """One result of the ledger."""

    paper: str
    published: Published
    bands: list[Band] = Field(min_length=1)
    ours: dict[str, Ours] = Field(description="By measure.")
    deviations: list[str] = Field(description="How the recipe differs from the paper.")

    @model_validator(mode="after")
    def _measured(self) -> "Recipe":
        for place, band in enumerate(self.bands):
            self.refuse_unknown(f"bands.{place}.metric", band.metric)
        for name in self.ours:
            self.refuse_unknown("ours", name)
        return self


def shipped() -> Iterator[Recipe]:
    """All recipes of the wheel, by name."""
    yield from experiment.shipped(Recipe, _ROOM).values()


def find(name: str) -> Recipe:
    """The recipe of that name, or in the YAML file of that path."""
    return experiment.find(Recipe, _ROOM, name)
