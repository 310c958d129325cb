"""Run an experiment, be it a recipe of the ledger or a study's row: train, evaluate, and keep the result."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.tasks.core.config import check, merge
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.evaluations import forget_evaluation, keep_evaluation, read_evaluations
from regard.tasks.core.fit import Say, fit
from regard.tasks.core.load import load
from regard.tasks.core.settings import RunSettings, settings_of
from regard.tasks.core.task import task_of
from regard.tasks.experiments.experiment import Experiment, resolved
from regard.training.progress import Reporter
from regard.training.run.run import RunFolder


@dataclass(frozen=True)
class Reproduced:
    """The result of one seed of an experiment.

    Attributes:
        run: its folder.
        evaluation: on the experiment's test data.
        minutes: spent, training and evaluation together, this time.
        loaded: the trained model, as `regard.load` gives it.
    """

    run: Path
    evaluation: Evaluation
    minutes: float
    loaded: Any


def reproduce(
    experiment: Experiment,
    run: Path,
    *,
    seed: int,
    data: Path | None = None,
    threads: int | None = None,
    progress: str | Reporter = "auto",
    say: Say = print,
) -> Reproduced:
    """Train an experiment with one seed and evaluate it; a run that was begun continues.

    Args:
        experiment: a recipe or a study's row; `experiment.locate` has found its data.
        run: the folder to write.
        seed: of the run.
        data: the folder of the experiment's data files.
        threads: to compute with, in place of the settings' own.
        progress: see `training.loop.train`.
        say: called with what was noticed in the data, see `fit`.
    """
    began = time.monotonic()
    settings, test = settled(experiment, seed, data, threads), tested(experiment, data)
    fit(settings, run, resume=RunFolder(run).config.is_file(), progress=progress, say=say)
    forget_evaluation(run, experiment.name)  # after a longer training it would be of other weights
    loaded = load(run)
    evaluation = task_of(settings).evaluate(loaded, run, test)
    keep_evaluation(run, {**_key(experiment, test), **evaluation.to_json()})
    return Reproduced(run, evaluation, (time.monotonic() - began) / 60, loaded)


def finished(
    experiment: Experiment, run: Path, *, seed: int, data: Path | None = None, threads: int | None = None
) -> dict[str, Any] | None:
    """The evaluation that `reproduce` kept of a run with these very settings; None if there is none yet.

    The number of threads is no matter: a resumed run may change it, too.
    """
    folder = RunFolder(run)
    if not (folder.config.is_file() and folder.results.is_file()):
        return None
    settings = settled(experiment, seed, data, threads)
    kept = check(type(settings), folder.read_config())
    if kept.model_copy(update={"threads": settings.threads}) != settings:
        return None
    key = _key(experiment, tested(experiment, data))
    return next((entry for entry in read_evaluations(run) if key.items() <= entry.items()), None)


def settled(experiment: Experiment, seed: int, data: Path | None, threads: int | None) -> RunSettings:
    """The settings of one run of an experiment."""
    given = {"seed": seed} | ({} if threads is None else {"threads": threads})
    tree = merge(resolved(experiment.config, data), given)
    return check(settings_of(str(tree.get("task"))), tree)


def tested(experiment: Experiment, data: Path | None) -> dict[str, Any]:
    """What an experiment is tested on, checked, as plain values; {} for what its run holds out."""
    tree = resolved(experiment.evaluate, data)
    if experiment.edges is not None:
        tree = {**tree, "edges": experiment.edges}
    return check(settings_of(experiment.task).tests, tree).model_dump(mode="json", exclude_unset=True)


def _key(experiment: Experiment, test: dict[str, Any]) -> dict[str, Any]:
    """What identifies an evaluation."""
    return {"data": experiment.name, "test": test}
