"""Train any task: from its settings to a run folder."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, RunError
from regard.files import whole_folder
from regard.layers.transformer.stack import checkpoint_activations
from regard.tasks.core.config import check, leaves
from regard.tasks.core.runs import AVERAGED, open_run
from regard.tasks.core.settings import RunSettings
from regard.tasks.core.task import task_of
from regard.training.loop import train
from regard.training.progress import Reporter
from regard.training.randomness import seed_everything, set_threads
from regard.training.run.run import RunFolder
from regard.training.settings import CHANGEABLE

Say = Callable[[str], None]


def _silent(message: str) -> None:
    pass


def fit(
    settings: RunSettings,
    folder: str | Path,
    *,
    resume: bool = False,
    progress: str | Reporter = "auto",
    say: Say = _silent,
) -> dict[str, Any]:
    """Train what the settings say, and write the run folder.

    Args:
        settings: of one task, e.g. `TranslationSettings`.
        folder: the run's; on resume an old one, else one that is not there or empty.
        resume: continue the run in the folder, bit for bit.
        progress: see `training.loop.train`.
        say: called with what was noticed in the data; what needs no attention is `Information`.

    Returns:
        The run's results, as in its `results.json`.

    Raises:
        RunError: the folder is taken, or on resume holds no run.
        DataError: the data cannot be used; the message names file and line.
        ConfigError: the settings do not fit the data or, on resume, the run.
    """
    task = task_of(settings)
    if settings.threads is not None:
        set_threads(settings.threads)
    run = _resumed(folder, settings) if resume else RunFolder(folder)
    if not resume and is_first():
        run.refuse_taken()  # at once, not after the data were read
    saved = run.tokenizers if resume and run.tokenizers.is_dir() else None
    prepared = task.data(settings, saved, say)
    # Seeded before the weights are made: a run killed before its first checkpoint starts over from the same ones.
    seed_everything(settings.seed)
    model = task.model(settings, prepared)  # before the folder, which settings that fit no model must not take
    if settings.training.recompute and not checkpoint_activations(model):
        raise ConfigError("training.recompute is for a Transformer's layers, and this model has none; leave it false")
    if is_first():
        if not resume:
            run = RunFolder.create(folder, settings.model_dump(mode="json"))
        if saved is None:
            whole_folder(run.tokenizers, prepared.parts.save)
    return train(
        run,
        model,
        task.loss(settings),
        prepared.batches,
        task.metrics(settings, prepared),
        settings.training,
        settings.seed,
        progress=progress,
        resume=resume,
    )


def _resumed(folder: str | Path, settings: RunSettings) -> RunFolder:
    """The run to continue; settings that would make it another run are refused, the others are written down."""
    run = open_run(folder)
    if not run.checkpoints.is_dir() and run.results.is_file() and (weights := run.read_results().get(AVERAGED)):
        raise RunError(
            f"{folder} is the mean of {len(weights)} weights, not a training: there are no moments to continue from. "
            "Resume the run that they came from, or train a new one"
        )
    before, now = run.read_config(), settings.model_dump(mode="json")
    before = check(type(settings), before).model_dump(mode="json")
    old, new = dict(leaves(before)), dict(leaves(now))
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    refused = [key for key in changed if not _may_change(key)]
    if refused:
        lines = "\n".join(f"  {key}: saved {old.get(key)}, now {new.get(key)}" for key in refused)
        raise ConfigError(f"the run cannot continue with other settings than it was started with:\n{lines}")
    if changed and is_first():
        run.write_config(now)
    return run


def _may_change(key: str) -> bool:
    room, _, name = key.partition(".")
    return key == "threads" or room == "search" or (room == "training" and name in CHANGEABLE)


def is_first() -> bool:
    """Whether this process is the one that writes: the only one, or the first that `torchrun` started."""
    return os.environ.get("RANK", "0") == "0"
