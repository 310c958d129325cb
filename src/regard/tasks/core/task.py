"""A task: what a model is for. Training, loading, evaluating and showing all come from these few functions."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from regard.errors import ConfigError, nearest
from regard.layers.objective import Objective
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.settings import Better, RunSettings
from regard.training.state import Batches
from regard.views.view import View


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

    Its settings, which the command line reads before it loads any of this, are found by `settings.settings_of(name)`.

    Attributes:
        name: as in `regard train NAME`.
        verb: the command that uses a trained model, as in `regard translate RUN`.
        data: `(settings, folder, say) -> Prepared`; the folder holds what an earlier start saved, or is None. What
            needs no attention is said as `data.news.Information`.
        model: `(settings, prepared) -> Module`, with fresh weights.
        loss: `settings -> ((model, batch) -> Objective)`, what training makes small.
        metrics: `(settings, prepared) -> (model -> {name: value})`, what a validation tells.
        predict: `folder -> the trained model with all that it needs`, what `regard.load` returns.
        view: `(loaded, text or None, *, language, …) -> View`, what `regard show` draws; text is None where none was
            given, and a task that can make an example draws that. Of the options of `regard show`, those that it names
            are its own.
        problems: `tree -> messages`: what is wrong in settings that only the loaded parts know, such as a score's name.
        evaluate: `(loaded, run's folder, test) -> Evaluation`; test holds checked values of the settings' `tests`, {}
            for what the run held out.
        measures: what an evaluation tells, the settings' own `measures`.
        examples: `(loaded, evaluation) -> View or None`, what `regard reproduce` shows at its end; by default nothing.
        monitors: what a validation tells, by name, and whether it should be low or high; None: the same `measures`.
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
    evaluate: Callable[[Any, Path, dict[str, Any]], Evaluation]
    measures: dict[str, Better]
    examples: Callable[[Any, Any], View | None] = lambda loaded, evaluation: None
    monitors: dict[str, Better] | None = None

    def faults(self, tree: dict[str, Any]) -> list[str]:
        """All that is wrong in settings beyond what their classes know, a line each."""
        return [*self.problems(tree), *_unwatchable(tree, self.measures if self.monitors is None else self.monitors)]


def _unwatchable(tree: dict[str, Any], monitors: dict[str, Better]) -> list[str]:
    """Whether training watches a measure that a validation tells, and in the right direction."""
    training = tree.get("training")
    watched = training if isinstance(training, dict) else {}
    monitor, better = watched.get("monitor", "loss"), watched.get("better", "min")
    if monitor not in monitors:
        return [f"training.monitor: no measure is named {monitor!r}.{nearest(str(monitor), monitors)}"]
    if better in ("min", "max") and better != monitors[monitor]:
        return [f"training.better: {monitor} should be {monitors[monitor]}; set training.better={monitors[monitor]}"]
    return []


TASKS = {
    "algorithms": "regard.tasks.algorithms.task",
    "captioning": "regard.tasks.captioning.task",
    "classification": "regard.tasks.classification.task",
    "language": "regard.tasks.language.task",
    "masked": "regard.tasks.masked.task",
    "pointing": "regard.tasks.pointing.task",
    "reading": "regard.tasks.reading.task",
    "tagging": "regard.tasks.tagging.task",
    "translation": "regard.tasks.translation.task",
}
"""Where each task is; they are imported when asked for."""


def find_task(name: str) -> Task:
    """The task of that name; an unknown one is an error with the nearest."""
    if name not in TASKS:
        raise ConfigError(f"no task is named {name!r}.{nearest(name, TASKS)}")
    task: Task = import_module(TASKS[name]).TASK
    return task


def task_of(settings: RunSettings) -> Task:
    """The task that settings are for."""
    return find_task(settings.task)
