"""Run an experiment, be it a recipe of the ledger or a study's row: train, evaluate, and keep what came of it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpus import read_corpus
from regard.data.settings import CorpusSettings
from regard.tasks.config import check, merge
from regard.tasks.evaluation import Evaluation, evaluate, held_out
from regard.tasks.evaluations import forget_evaluation, keep_evaluation, read_evaluations
from regard.tasks.experiment import Experiment, resolved
from regard.tasks.fit import Say, fit
from regard.tasks.load import load
from regard.tasks.settings import RunSettings, settings_of
from regard.training.progress import Reporter
from regard.training.run import RunFolder


@dataclass(frozen=True)
class Reproduced:
    """What one seed of an experiment came to.

    Attributes:
        run: its folder.
        evaluation: on the experiment's test data.
        minutes: spent, training and evaluation together, this time.
        translator: the trained model.
    """

    run: Path
    evaluation: Evaluation
    minutes: float
    translator: Any


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
    """Train an experiment with one seed and evaluate it; a run that was begun goes on.

    Args:
        experiment: a recipe or a study's row; `experiment.locate` has found its data.
        run: the folder to write.
        seed: of the run.
        data: the folder of the experiment's data files.
        threads: to compute with, in place of the settings' own.
        progress: see `training.loop.train`.
        say: told what was noticed in the data.
    """
    began = time.monotonic()
    settings, test = settled(experiment, seed, data, threads), tested(experiment, data)
    fit(settings, run, resume=RunFolder(run).config.is_file(), progress=progress, say=say)
    forget_evaluation(run, experiment.name)  # after a longer training it would be of other weights
    translator = load(run)
    pairs = read_corpus(test) if test.given else held_out(run)
    evaluation = evaluate(translator, pairs, edges=experiment.edges)
    keep_evaluation(run, {**_key(experiment, test), **evaluation.to_json()})
    return Reproduced(run, evaluation, (time.monotonic() - began) / 60, translator)


def finished(
    experiment: Experiment, run: Path, *, seed: int, data: Path | None = None, threads: int | None = None
) -> dict[str, Any] | None:
    """The evaluation that `reproduce` kept of a run with these very settings; None if it has not come so far.

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


def tested(experiment: Experiment, data: Path | None) -> CorpusSettings:
    """Where an experiment's test pairs come from."""
    return check(CorpusSettings, resolved(experiment.evaluate, data))


def _key(experiment: Experiment, test: CorpusSettings) -> dict[str, Any]:
    """By what an evaluation is known again."""
    return {"data": experiment.name, "pairs_of": test.model_dump(mode="json"), "edges": experiment.edges}
