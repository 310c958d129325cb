"""A run whose weights are the mean of others': of one training's last checkpoints, or of several from one beginning."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.tokenizers.factory import load_tokenizer
from regard.errors import ConfigError, RunError
from regard.files import digest, whole_folder
from regard.tasks.core.config import check, leaves
from regard.tasks.core.runs import AVERAGED, open_run
from regard.tasks.core.settings import settings_of
from regard.tasks.translation.data import SOURCE, TARGET
from regard.training.run.average import last_checkpoints, save_average
from regard.training.run.run import RunFolder


def average(runs: Sequence[str | Path], out: str | Path, last: int | None = None) -> dict[str, Any]:
    """Write a new run folder with averaged weights; it translates, is evaluated and shown as any run is.

    Of one run its last checkpoints are averaged (as in Vaswani et al. 2017, § 6.1), of several their best weights.
    Several must have begun from the same weights: the same model settings, seed and vocabularies. Other settings may
    differ; the new run has the first one's, and its results say what it was made of.

    Args:
        runs: folders of runs.
        out: the new run's folder.
        last: of one run, how many of its newest checkpoints; all that it kept if None.

    Returns:
        The new run's results, as in its `results.json`.

    Raises:
        ConfigError: `last` is given for several runs, or is below 2.
        RunError: a run or a checkpoint cannot be used, the runs did not begin alike, or `out` is taken.
    """
    if not runs:
        raise ConfigError("there is nothing to average: name a run")
    if last is not None and (len(runs) > 1 or last < 2):
        raise ConfigError(f"last counts the checkpoints of one run, at least 2; it is {last} for {len(runs)} runs")
    made = RunFolder(out)
    made.refuse_taken()
    opened = [open_run(run) for run in runs]
    for other in opened[1:]:
        _refuse_other_beginning(opened[0], other)
    files = last_checkpoints(opened[0].checkpoints, last) if len(opened) == 1 else [run.weights for run in opened]
    results: dict[str, Any] = {
        "ended_by": "average",
        "best": {},
        AVERAGED: [{"weights": str(file), "sha256": digest(file)} for file in files if file.is_file()],
    }

    def fill(folder: Path) -> None:
        part = RunFolder(folder)
        results["parameters"] = save_average(part.weights, files)
        if opened[0].tokenizers.is_dir():
            shutil.copytree(opened[0].tokenizers, part.tokenizers)
        part.write_config(opened[0].read_config())
        part.write_results(results)

    whole_folder(made.path, fill)
    return results


def _refuse_other_beginning(run: RunFolder, other: RunFolder) -> None:
    """Weights are made of the seed, the model's settings and the sizes of its vocabularies."""
    one, its = (_beginning(each) for each in (run, other))
    keys = sorted(key for key in one.keys() | its.keys() if one.get(key) != its.get(key))
    if keys:
        raise RunError(
            f"{run.path} and {other.path} did not begin from the same weights, so that their mean is of no use:\n"
            + "\n".join(f"  {key}: {one.get(key)} and {its.get(key)}" for key in keys)
            + "\nAverage runs of one seed, model and vocabulary; decode others together: regard translate --with RUN"
        )


def _beginning(run: RunFolder) -> dict[str, Any]:
    tree = run.read_config()
    settings = check(settings_of(str(tree.get("task", ""))), tree).model_dump(mode="json")
    identity = {key: value for key, value in leaves(settings) if key in ("task", "seed") or key.startswith("model.")}
    for side in (SOURCE, TARGET):
        if (run.tokenizers / side).is_dir():
            tokenizer = load_tokenizer(run.tokenizers / side)
            identity[f"{side} vocabulary"] = f"{len(tokenizer)} entries, sha256 {tokenizer.fingerprint()[:12]}…"
    return identity
