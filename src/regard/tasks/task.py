"""A task: what a model is for. Training, loading, evaluating and showing all come from these few functions."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from regard.errors import ConfigError, nearest
from regard.layers.objective import Objective
from regard.tasks.settings import RunSettings
from regard.training.place import Batches


class Prepared(Protocol):
    """A task's data, ready to train on."""

    @property
    def batches(self) -> Batches:
        """What training reads."""
        ...

    def save(self, folder: Path) -> None:
        """Write what using the model will need besides its weights, such as tokenizers."""
        ...


@dataclass(frozen=True)
class Task:
    """What a model is for.

    Attributes:
        name: as in `regard train NAME`.
        verb: the command that uses a trained model, as in `regard translate RUN`.
        data: `(settings, folder, say) -> Prepared`; the folder holds what an earlier start saved, or is None.
        model: `(settings, prepared) -> Module`, with fresh weights.
        loss: `settings -> ((model, batch) -> Objective)`, what training makes small.
        metrics: `(settings, prepared) -> (model -> {name: value})`, what a validation tells.
        predict: `folder -> the trained model with all that it needs`, what `regard.load` returns.
        view: `(loaded, text, …) -> View`, what `regard show` draws.
        problems: `tree -> messages`: what is wrong in settings that only the loaded parts know, such as a score's name.
    """

    name: str
    verb: str
    data: Callable[[Any, Path | None, Callable[[str], None]], Prepared]
    model: Callable[[Any, Any], nn.Module]
    loss: Callable[[Any], Callable[[nn.Module, Any], Objective]]
    metrics: Callable[[Any, Any], Callable[[Any], dict[str, float]]]
    predict: Callable[[Path], Any]
    view: Callable[..., Any]
    problems: Callable[[dict[str, Any]], list[str]]


_MODULES = {"translation": "regard.tasks.translation"}
"""Where each task is; they are imported when asked for."""


def find_task(name: str) -> Task:
    """The task of that name; an unknown one is an error with the nearest."""
    if name not in _MODULES:
        raise ConfigError(f"no task is named {name!r}.{nearest(name, _MODULES)}")
    task: Task = import_module(_MODULES[name]).TASK
    return task


def task_of(settings: RunSettings) -> Task:
    """The task that settings are for."""
    return find_task(settings.task)
