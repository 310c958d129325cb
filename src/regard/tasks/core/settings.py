"""The settings of a run, by task. No torch here, so that they are read at once.

Each task's own stand in a file of their own, `<task>_settings.py`, and are imported when they are asked for.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

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
        tests: settings of the data that `regard evaluate`, recipes and studies test on; none given: the held-out data.
        measures: what an evaluation tells, by name, and whether it should be low or high. Bands of recipes and columns
            of studies are checked against it.
        by_length: what its rows by length tell besides.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    tests: ClassVar[type[BaseModel]] = HeldOut
    measures: ClassVar[dict[str, Better]] = {}
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


SETTINGS: dict[str, str] = {
    "algorithms": "regard.tasks.algorithms.settings:AlgorithmSettings",
    "captioning": "regard.tasks.captioning.settings:CaptioningSettings",
    "classification": "regard.tasks.classification.settings:ClassificationSettings",
    "language": "regard.tasks.language.settings:LanguageSettings",
    "masked": "regard.tasks.masked.settings:MaskedSettings",
    "pointing": "regard.tasks.pointing.settings:PointingSettings",
    "reading": "regard.tasks.reading.settings:ReadingSettings",
    "tagging": "regard.tasks.tagging.settings:TaggingSettings",
    "translation": "regard.tasks.translation.settings:TranslationSettings",
}
"""Where each task's settings are, `module:Class`; `task.TASKS` says where the task itself is."""


def settings_of(task: str) -> type[RunSettings]:
    """The settings class of a task; an unknown name is an error with the nearest."""
    if task not in SETTINGS:
        raise ConfigError(f"no task is named {task!r}.{nearest(task, SETTINGS)}")
    module, _, name = SETTINGS[task].partition(":")
    kind: Any = getattr(import_module(module), name)
    assert issubclass(kind, RunSettings)
    return kind
