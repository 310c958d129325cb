"""What can be read of a run folder without torch: its settings, and that it is one."""

import json
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, RunError
from regard.tasks.core.settings import settings_of, task_names
from regard.training.run.run import RunFolder

HUGGING_FACE = "config.json"
AVERAGED = "averaged"
"""The entry of `results.json` that says which weights a run is the mean of."""


def open_run(path: str | Path) -> RunFolder:
    """The run folder at a path.

    Raises:
        RunError: there is no folder, or it is one of another kind; a Hugging Face folder is named as such.
    """
    folder = Path(path)
    if not folder.exists():
        raise RunError(f"{folder}: no such folder; expected a run, as `regard train … --run {folder}` makes it")
    run = RunFolder(folder)
    if not run.config.is_file() and (folder / HUGGING_FACE).is_file():
        raise RunError(
            f"{folder} is a Hugging Face folder ({_kind(folder)}); this version loads only the runs of `regard train`"
        )
    return RunFolder.open(folder)


def refuse_taken(path: str | Path) -> None:
    """Raise a RunError if there is something at the path where a new run is to be."""
    RunFolder(path).refuse_taken()


def config_of(path: str | Path, verb: str | None = None) -> dict[str, Any]:
    """The settings of a run, as plain values.

    Args:
        path: the run folder.
        verb: of the tasks that the run may be of, e.g. "translate"; of any if not given.

    Raises:
        RunError: there is no run.
        ConfigError: it is one of a task with another verb.
    """
    config = open_run(path).read_config()
    if verb is not None:
        tasks = [name for name in task_names() if settings_of(name).verb == verb]
        if config.get("task") not in tasks:
            raise ConfigError(f"{path} is a run of {config.get('task')}; this needs one of {' or '.join(tasks)}")
    return config


def _kind(folder: Path) -> str:
    try:
        return f"model type {json.loads((folder / HUGGING_FACE).read_text(encoding='utf-8'))['model_type']!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "it has a config.json"
