"""Load what was trained: a run folder as something that can be used."""

from pathlib import Path
from typing import Any

from regard.tasks.core.runs import config_of
from regard.tasks.core.task import find_task
from regard.training.randomness import set_threads


def load(path: str | Path, *, threads: int | None = None) -> Any:
    """The trained model of a run folder, ready for its task: for a translation run a `TranslationPredictor`.

    Nothing in the folder is executed: settings are YAML, weights safetensors, tokenizers JSON.

    Args:
        path: the run's folder.
        threads: to compute with; all cores if not given.

    Raises:
        RunError: no such folder, no run, no weights yet, or a damaged file; a Hugging Face folder is named as such.
        ConfigError: the run's settings cannot be used by this version.
    """
    task = find_task(config_of(path))
    if threads is not None:
        set_threads(threads)
    return task.load(Path(path))
