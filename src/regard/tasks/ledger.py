"""The ledger of recipes: results that we reproduce, each one YAML file in the wheel, with its paper, band and data."""

import hashlib
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.errors import ConfigError, DataError, nearest
from regard.tasks.config import check, parse_yaml, read_yaml

DATA = "${data}"
"""Stands in a recipe for the folder given as --data."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Published(_Part):
    """What the paper reports, and where in it."""

    value: float | None = Field(None, description="The published number; none if the paper has no comparable one.")
    where: str = Field(description="Where it was read (table, line), and on which data it holds.")


class Band(_Part):
    """The numbers that count as a reproduction."""

    metric: Literal["bleu", "chrf", "exact", "perplexity", "aer"] = Field(
        description="A measure that `regard evaluate` gives; aer needs true links."
    )
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


class Ours(_Part):
    """What we measured, and on what."""

    value: float
    note: str = Field(description="Seeds, machine, and what else is needed to read the number.")


class DataFile(_Part):
    """One file a recipe needs, found by its name in the folder given as --data."""

    name: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Data(_Part):
    """Files that the wheel does not carry, and where they come from."""

    origin: str
    files: list[DataFile]


class Recipe(_Part):
    """One result of the ledger."""

    name: str = Field(pattern="^[a-z0-9-]+$")
    title: str
    paper: str
    published: Published
    bands: list[Band] = Field(min_length=1)
    ours: dict[str, Ours] = Field(description="By measure.")
    minutes: float = Field(gt=0, description="Minutes that one seed takes on two cores.")
    deviations: list[str] = Field(description="How the recipe differs from the paper.")
    data: Data | None = None
    evaluate: dict[str, Any] = Field(default_factory=dict, description="Test data, as in the settings' `data`.")
    config: dict[str, Any] = Field(description="The settings of the run.")


def shipped() -> Iterator[Recipe]:
    """All recipes of the wheel, by name."""
    folder = resources.files("regard") / "recipes"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            yield check(Recipe, parse_yaml(entry.read_text(encoding="utf-8"), entry.name))


def find(name: str) -> Recipe:
    """The recipe of that name, or in the YAML file of that path."""
    if name.endswith((".yaml", ".yml")):
        return check(Recipe, read_yaml(name))
    recipes = {recipe.name: recipe for recipe in shipped()}
    if name not in recipes:
        raise ConfigError(f"no recipe is named {name!r}.{nearest(name, recipes)}")
    return recipes[name]


def locate(recipe: Recipe, folder: Path | None, unverified: bool = False, warn: Callable[[str], None] = print) -> None:
    """Check that the recipe's data files are there and are the right ones; all faults are in one error.

    Args:
        recipe: the recipe.
        folder: where the user says the files are.
        unverified: go on, with a warning, when a file is not byte for byte the one of the recipe.
        warn: called with each warning.
    """
    if recipe.data is None:
        return
    origin = f"They come from: {' '.join(recipe.data.origin.split())}"
    if folder is None:
        listed = "\n".join(f"  {file.name}  sha256 {file.sha256}" for file in recipe.data.files)
        raise DataError(
            f"{recipe.name} needs files that regard does not carry. Name their folder: --data DIR\n{listed}\n{origin}"
        )
    faults, other = [], []
    for file in recipe.data.files:
        path = folder / file.name
        if not path.is_file():
            faults.append(f"  {path} is absent; expected sha256 {file.sha256}")
        elif (found := digest(path)) != file.sha256:
            other.append(f"  {path} is another file: sha256 {found}, expected {file.sha256}")
    if other and unverified:
        for line in other:
            warn(line.strip())
        other = []
    if faults or other:
        advice = " To use other files all the same: --unverified" if other and not faults else ""
        raise DataError("\n".join(["the data are not those of the recipe:", *faults, *other, origin + advice]))


def digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolved(tree: Any, folder: Path | None) -> Any:
    """A tree of settings with the data folder put in the place of `${data}`."""
    if isinstance(tree, dict):
        return {key: resolved(value, folder) for key, value in tree.items()}
    if isinstance(tree, list):
        return [resolved(value, folder) for value in tree]
    if isinstance(tree, str) and tree.startswith(DATA) and folder is not None:
        return str(folder) + tree.removeprefix(DATA)
    return tree
