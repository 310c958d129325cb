"""Run a recipe of the ledger: train, evaluate, and keep what came of it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpus import read_corpus
from regard.data.settings import CorpusSettings
from regard.tasks.config import check, merge
from regard.tasks.evaluation import Evaluation, evaluate, held_out
from regard.tasks.evaluations import keep_evaluation
from regard.tasks.fit import Say, fit
from regard.tasks.ledger import Recipe, resolved
from regard.tasks.load import load
from regard.tasks.settings import settings_of
from regard.training.progress import Reporter
from regard.training.run import RunFolder


@dataclass(frozen=True)
class Reproduced:
    """What one seed of a recipe came to.

    Attributes:
        run: its folder.
        evaluation: on the recipe's test data.
        minutes: spent, training and evaluation together, this time.
        translator: the trained model.
    """

    run: Path
    evaluation: Evaluation
    minutes: float
    translator: Any


def reproduce(
    recipe: Recipe,
    run: Path,
    *,
    seed: int,
    data: Path | None = None,
    threads: int | None = None,
    progress: str | Reporter = "auto",
    say: Say = print,
) -> Reproduced:
    """Train a recipe with one seed and evaluate it; a run that was begun goes on.

    Args:
        recipe: of the ledger; `ledger.locate` has found its data.
        run: the folder to write.
        seed: of the run.
        data: the folder of the recipe's data files.
        threads: to compute with.
        progress: see `training.loop.train`.
        say: told what was noticed in the data.
    """
    began = time.monotonic()
    tree = merge(resolved(recipe.config, data), {"seed": seed, "threads": threads})
    settings = check(settings_of(str(tree.get("task"))), tree)
    tested = check(CorpusSettings, resolved(recipe.evaluate, data))
    fit(settings, run, resume=RunFolder(run).config.is_file(), progress=progress, say=say)
    translator = load(run)
    pairs = read_corpus(tested) if tested.given else held_out(run)
    evaluation = evaluate(translator, pairs)
    keep_evaluation(run, {"data": recipe.name, **evaluation.to_json()})
    return Reproduced(run, evaluation, (time.monotonic() - began) / 60, translator)
