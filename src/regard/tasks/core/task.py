"""A task: what a model is for. Training, loading, evaluating and showing all come from these few functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Concatenate, Generic, Protocol, TypeVar, runtime_checkable

from torch import nn

from regard.errors import nearest
from regard.layers.objective import Objective
from regard.tasks.core.config import branch
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.predictor import Predictor
from regard.tasks.core.settings import Better, RunSettings, settings_of
from regard.training.state import Batches
from regard.views.view import View


@runtime_checkable
class Saved(Protocol):
    """What using a model needs besides its weights, such as tokenizers."""

    def save(self, folder: Path) -> Any:
        """Write it into a run's folder."""
        ...


class Nothing:
    """The parts of a model that needs none."""

    def save(self, folder: Path) -> None:
        """Write nothing: the settings say it all."""


Settings = TypeVar("Settings", bound=RunSettings)
Parts = TypeVar("Parts", bound=Saved)
Batch = TypeVar("Batch")
HeldOut = TypeVar("HeldOut")
Loaded = TypeVar("Loaded", bound=Predictor[Any, Any, Any])
Result = TypeVar("Result", bound=Evaluation)


@dataclass(frozen=True)
class Prepared(Generic[Parts, Batch, HeldOut]):
    """A task's data, ready to train on.

    Attributes:
        parts: what the model needs besides its weights; a run's folder keeps it.
        batches: of the training data.
        held_out: what a validation reads to choose a checkpoint.
    """

    parts: Parts
    batches: Batches[Batch]
    held_out: HeldOut


@dataclass(frozen=True, kw_only=True)
class Task(Generic[Settings, Parts, Batch, HeldOut, Loaded, Result]):
    """What a model is for. Its functions fit together: a type checker sees a pair that does not.

    Attributes:
        settings: of its runs; they also say its name, its verb and its measures.
        data: `(settings, folder, say) -> Prepared`; the folder holds what an earlier start saved, or is None. What
            needs no attention is reported as `data.messages.Information`.
        build: `(settings, parts) -> Module`, with the weights that training begins with: as a rule the predictor's.
        loss: `settings -> ((model, batch) -> Objective)`, what training minimizes.
        metrics: `(settings, prepared) -> (model -> {name: value})`, what a validation measures.
        load: `folder -> the trained model with all that it needs`, what `regard.load` returns: the predictor's.
        view: `(loaded, text or None, *, language, …) -> View`, what `regard show` draws; text is None where none was
            given, and a task that can make an example draws that. Of the options of `regard show`, those that it names
            are its own.
        problems: `tree -> messages`: what is wrong in settings that only the loaded parts know, such as a score's name.
        evaluate: `(loaded, run's folder, test, *, …) -> Evaluation`; test holds checked values of the settings'
            `tests`, {} for what the run held out. Of the options of `regard evaluate`, those that it names are its own.
        examples: `(loaded, evaluation) -> View or None`, what `regard reproduce` shows at its end; by default nothing.
        monitors: what a validation measures, by name, and whether it should be low or high; None: the same `measures`.
    """

    settings: type[Settings]
    data: Callable[[Settings, Path | None, Callable[[str], None]], Prepared[Parts, Batch, HeldOut]]
    build: Callable[[Settings, Parts], nn.Module]
    loss: Callable[[Settings], Callable[[nn.Module, Batch], Objective]]
    metrics: Callable[[Settings, Prepared[Parts, Batch, HeldOut]], Callable[[Any], dict[str, float]]]
    load: Callable[[Path], Loaded]
    view: Callable[Concatenate[Loaded, str | None, ...], View]
    problems: Callable[[dict[str, Any]], list[str]]
    evaluate: Callable[Concatenate[Loaded, Path, dict[str, Any], ...], Result]
    examples: Callable[[Loaded, Result], View | None] = lambda loaded, evaluation: None
    monitors: dict[str, Better] | None = None

    @property
    def measures(self) -> dict[str, Better]:
        """What an evaluation measures, by name, and whether it should be low or high."""
        return self.settings.measures

    def model(self, settings: Settings, prepared: Prepared[Parts, Batch, HeldOut]) -> nn.Module:
        """The model that training begins with."""
        return self.build(settings, prepared.parts)

    def faults(self, tree: dict[str, Any]) -> list[str]:
        """All that is wrong in settings beyond what their classes know, one line each."""
        return [*self.problems(tree), *_monitor_faults(tree, self.measures if self.monitors is None else self.monitors)]


AnyTask = Task[Any, Any, Any, Any, Any, Any]


@dataclass(frozen=True)
class Kinds:
    """A task of several kinds of models that share their settings, each a `Task` of its own.

    Attributes:
        tasks: by `model.kind`.
        default: the kind of settings that do not say theirs.
    """

    tasks: Mapping[str, AnyTask]
    default: str

    def of(self, tree: Mapping[str, Any]) -> AnyTask:
        """The task of the kind that a tree of settings names, or stands for."""
        return self.tasks.get(str(branch(tree, "model").get("kind")), self.tasks[self.default])


def missing_data(tree: Mapping[str, Any], origins: Iterable[str], fault: str) -> list[str]:
    """The fault of settings that name no data to train on, as a line; none if they name some.

    Args:
        tree: of the settings.
        origins: keys of `data`, each of which names some.
        fault: what is missing and how it is given, e.g. "no text to train on. Give data.text=FILE".
    """
    data = branch(tree, "data")
    return [] if any(data.get(origin) not in (None, False, "", []) for origin in origins) else [f"data: {fault}"]


def _monitor_faults(tree: dict[str, Any], monitors: dict[str, Better]) -> list[str]:
    """Whether training monitors a measure that a validation has, and in the right direction."""
    watched = branch(tree, "training")
    monitor, better = watched.get("monitor", "loss"), watched.get("better", "min")
    if monitor not in monitors:
        return [f"training.monitor: no measure is named {monitor!r}.{nearest(str(monitor), monitors)}"]
    if better in ("min", "max") and better != monitors[monitor]:
        return [f"training.better: {monitor} should be {monitors[monitor]}; set training.better={monitors[monitor]}"]
    return []


def find_task(tree: Mapping[str, Any]) -> AnyTask:
    """The task that a tree of settings is for, `regard.tasks.<its name>.task.TASK`.

    Raises:
        ConfigError: there is no task of that name; the message names the nearest.
    """
    name = str(tree.get("task", ""))
    settings_of(name)  # which refuses an unknown one
    found: AnyTask | Kinds = import_module(f"regard.tasks.{name}.task").TASK
    return found.of(tree) if isinstance(found, Kinds) else found


def task_of(settings: RunSettings) -> AnyTask:
    """The task that settings are for."""
    return find_task(settings.model_dump(mode="json"))
