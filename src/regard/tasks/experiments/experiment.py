"""An experiment: the settings of a run, the data that they need, and the data that test it.

A recipe is one, and so is each row of a study.
"""

from collections.abc import Callable, Collection
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.errors import ConfigError, DataError, nearest
from regard.files import digest
from regard.tasks.core.config import check, parse_yaml, read_yaml
from regard.tasks.core.settings import settings_of

DATA = "${data}"
"""Stands in an experiment for the folder given as --data."""


class Part(BaseModel):
    """The base of all that such a file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataFile(Part):
    """One file a recipe needs, found by its name in the folder given as --data."""

    name: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Data(Part):
    """Files that the wheel does not carry, and where they come from."""

    origin: str
    files: list[DataFile]


class Experiment(Part):
    """One model to be trained and tested."""

    name: str = Field(pattern="^[a-z0-9-]+$")
    title: str
    minutes: float = Field(gt=0, description="Minutes that one run takes on two cores.")
    data: Data | None = None
    evaluate: dict[str, Any] = Field(default_factory=dict, description="Test data: the task's settings of tests.")
    edges: list[int] | None = Field(
        None, min_length=1, description="Source lengths at which the next row of the table by length begins."
    )
    config: dict[str, Any] = Field(description="The settings of the run.")

    @model_validator(mode="after")
    def _rising(self) -> "Experiment":
        if self.edges is not None and (self.edges != sorted(set(self.edges)) or self.edges[0] < 1):
            raise ValueError(f"`edges` are lengths from 1 on, each greater than the one before; given {self.edges}")
        return self

    @property
    def task(self) -> str:
        """What its model is for."""
        return str(self.config.get("task", ""))

    def refuse_unknown(self, place: str, name: str, besides: Collection[str] = ()) -> None:
        """Refuse a name at this place that is no measure of the task, nor one of those besides.

        Raises:
            ValueError: it is neither.
        """
        known = [*settings_of(self.task).measures, *besides]
        if name not in known:
            raise ValueError(f"{place}: {name!r} is not one of the measures of {self.task}.{nearest(name, known)}")


Kind = TypeVar("Kind", bound=Experiment)


def shipped(kind: type[Kind], room: str) -> dict[str, Kind]:
    """All files of a room of the wheel, such as `recipes`, by name."""
    folder = resources.files("regard") / room
    entries = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda one: one.name)
    read = [check(kind, parse_yaml(entry.read_text(encoding="utf-8"), entry.name)) for entry in entries]
    return {one.name: one for one in read}


def find(kind: type[Kind], room: str, name: str) -> Kind:
    """The one of that name in the room, or in the YAML file of that path.

    Raises:
        ConfigError: there is none of that name, or the file says something that does not fit.
    """
    if name.lower().endswith((".yaml", ".yml")):
        return check(kind, read_yaml(name))
    known = shipped(kind, room)
    if name not in known:
        raise ConfigError(f"no {kind.__name__.lower()} is named {name!r}.{nearest(name, known)}")
    return known[name]


def locate(
    experiment: Experiment, folder: Path | None, unverified: bool = False, warn: Callable[[str], None] = print
) -> None:
    """Check that the data files are there and are the right ones; all faults are in one error.

    Args:
        experiment: a recipe or a study.
        folder: where the user says the files are.
        unverified: continue, with a warning, when a file is not byte for byte the one that it names.
        warn: called with each warning.

    Raises:
        DataError: files are missing, or are other ones than the experiment names.
    """
    if experiment.data is None:
        return
    origin = f"They come from: {' '.join(experiment.data.origin.split())}"
    if folder is None or not folder.is_dir():
        given = "" if folder is None else f", and there is no folder {folder}"
        listed = "\n".join(f"  {file.name}  sha256 {file.sha256}" for file in experiment.data.files)
        raise DataError(
            f"{experiment.name} needs files that regard does not carry{given}. Name their folder: --data DIR\n"
            f"{listed}\n{origin}"
        )
    faults, other = [], []
    for file in experiment.data.files:
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
        raise DataError("\n".join([f"the data are not those of {experiment.name}:", *faults, *other, origin + advice]))


def resolved(tree: Any, folder: Path | None) -> Any:
    """A tree of settings with the data folder put in the place of `${data}`."""
    if isinstance(tree, dict):
        return {key: resolved(value, folder) for key, value in tree.items()}
    if isinstance(tree, list):
        return [resolved(value, folder) for value in tree]
    if isinstance(tree, str) and tree.startswith(DATA) and folder is not None:
        return str(folder) + tree.removeprefix(DATA)
    return tree
