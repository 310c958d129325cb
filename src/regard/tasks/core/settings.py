"""The settings of a run, by task. No torch here, so that they are read at once.

Each task's own stand in its folder, `tasks/<task>/settings.py`, and are imported when they are asked for.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

import regard.tasks
from regard.errors import ConfigError, nearest
from regard.training.settings import TrainingSettings

Better = Literal["min", "max"]
"""Whether a measure should be low or high."""


class HeldOut(BaseModel):
    """Test data of a task that can be tested on nothing but what a run held out from its training."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunSettings(BaseModel):
    """What every run has. A task's own settings are a subclass, with `data`, `model` and what else it needs.

    Attributes:
        verb: the command that uses a trained model, as in `regard translate RUN`.
        tests: settings of the data that `regard evaluate`, recipes and studies test on; none given: the held-out data.
        measures: what an evaluation measures, by name, and whether it should be low or high. Bands of recipes and
            columns of studies are checked against it.
        options: by command, those of its options that this task takes and not every one.
        takes_a_file: whether `regard show` is given the name of a file, and not a text.
        by_length: what its rows by length show besides.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    verb: ClassVar[str] = ""
    tests: ClassVar[type[BaseModel]] = HeldOut
    measures: ClassVar[dict[str, Better]] = {}
    options: ClassVar[Mapping[str, Sequence[str]]] = {}
    takes_a_file: ClassVar[bool] = False
    by_length: ClassVar[tuple[str, ...]] = ()

    task: str = Field(description="What the model is for.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of every random choice.")
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Threads to compute with; null: all cores. A run repeats bit for bit at the same number.",
    )
    training: TrainingSettings = Field(default=TrainingSettings(), description="How it is trained.")

    @classmethod
    def of_file(cls, path: Path) -> dict[str, Any]:
        """The settings that `regard train TASK --data FILE` stands for.

        Raises:
            ConfigError: the task does not say.
        """
        raise ConfigError(
            f"--data {path}: name the data of this task by their settings (regard train TASK --print-config lists "
            "them); --data is the folder of a recipe's files"
        )


_SHARED = ("core", "experiments", "views")
"""Folders of `tasks/` that hold no task."""


def task_names() -> list[str]:
    """The tasks that there are, in the order of their names: the folders of `tasks/`."""
    return sorted(one.name for one in iter_modules(regard.tasks.__path__) if one.ispkg and one.name not in _SHARED)


def settings_of(task: str) -> type[RunSettings]:
    """The settings class of a task, `regard.tasks.<task>.settings.SETTINGS`.

    Raises:
        ConfigError: there is no task of that name; the message names the nearest.
    """
    if task not in task_names():
        raise ConfigError(f"no task is named {task!r}.{nearest(task, task_names())}")
    kind: type[RunSettings] = import_module(f"regard.tasks.{task}.settings").SETTINGS
    return kind
