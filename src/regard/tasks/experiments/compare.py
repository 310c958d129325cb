"""Several runs side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import RunError
from regard.tasks.core.config import leaves
from regard.tasks.core.evaluations import read_evaluations
from regard.tasks.core.runs import open_run
from regard.training.run.run import RunFolder


def summaries(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """For each run the settings in which the runs differ, its results, and its last evaluation on each test set.

    Raises:
        RunError: a folder is no run, or damaged. A run that has not ended is shown with what there is.
    """
    opened = [open_run(path) for path in runs]
    settings = [dict(leaves(run.read_config())) for run in opened]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    differing = [key for key in keys if len({repr(one.get(key)) for one in settings}) > 1]
    found = []
    for path, run, one in zip(runs, opened, settings, strict=True):
        summary: dict[str, Any] = {"run": str(path)}
        summary |= {key: one.get(key) for key in differing}
        if run.results.is_file():
            results = run.read_results()
            summary |= {name: results.get(name) for name in ("parameters", "steps")}
            seconds = results.get("seconds")
            summary["minutes"] = seconds / 60 if isinstance(seconds, int | float) else None
            summary |= {f"best {name}": value for name, value in _table(results.get("best"), run).items()}
        else:
            summary["steps"] = "not ended"
        for evaluation in read_evaluations(run.path):
            summary |= {f"{evaluation['data']} {name}": value for name, value in evaluation["measures"].items()}
        found.append(summary)
    return found


def _table(value: object, run: RunFolder) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RunError(f"{run.results} is damaged: its `best` is no table; resume the run to have it written again")
    return value
