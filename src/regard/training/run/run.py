"""A run folder: the one place where a training run keeps its settings and its results.

```
run/
  config.yaml         the whole configuration
  model.safetensors   the best weights so far
  metrics.jsonl       one JSON object per line: training every few updates, and each validation
  results.json        its results, once the run has ended
  tokenizers/         what turns text into ids and back, if the task has any
  events/             the same numbers for TensorBoard
  checkpoints/        everything that resuming needs
```
"""

import json
import os
from pathlib import Path
from typing import Any

import yaml

from regard.errors import RunError
from regard.files import write_atomically, write_json
from regard.training.run.plain_yaml import load_plain

CONFIG = "config.yaml"


class RunFolder:
    """The paths of a run folder, and its small files.

    Args:
        path: the folder; it need not exist yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config = self.path / CONFIG
        self.weights = self.path / "model.safetensors"
        self.metrics = self.path / "metrics.jsonl"
        self.results = self.path / "results.json"
        self.tokenizers = self.path / "tokenizers"
        self.events = self.path / "events"
        self.checkpoints = self.path / "checkpoints"

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: dict[str, Any]) -> "RunFolder":
        """A new run with this configuration.

        Raises:
            RunError: there is something at the path already.
        """
        run = cls(path)
        run.refuse_taken()
        run.write_config(config)
        return run

    def refuse_taken(self) -> None:
        """Make sure that the path is free.

        Raises:
            RunError: there is something already.
        """
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise RunError(
                f"{self.path} is there already and is not an empty folder; name another one, or resume the run"
            )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """The run at the path.

        Raises:
            RunError: there is none.
        """
        run = cls(path)
        if not run.config.is_file():
            raise RunError(f"{run.path} is not a run folder: it has no {CONFIG}; give the folder that training made")
        return run

    def write_config(self, config: dict[str, Any]) -> None:
        """Write `config.yaml`; the values must be plain ones, as pydantic's `model_dump(mode="json")` gives them."""
        write_atomically(self.config, yaml.safe_dump(config, allow_unicode=True, sort_keys=False))

    def read_config(self) -> dict[str, Any]:
        """The run's configuration, as plain values.

        Raises:
            RunError: `config.yaml` is absent or is no mapping.
        """
        try:
            config = load_plain(self.config.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise RunError(f"{self.config} cannot be read: {error}") from error
        if not isinstance(config, dict):
            raise RunError(f"{self.config} holds no settings; expected `key: value` lines")
        return config

    def read_metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`; a last one that a kill left unfinished does not count."""
        if not self.metrics.is_file():
            return []
        lines = []
        for line in self.metrics.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines

    def write_results(self, results: dict[str, Any]) -> None:
        """Write `results.json`."""
        write_json(self.results, results)

    def read_results(self) -> dict[str, Any]:
        """The results of the run.

        Raises:
            RunError: the run has not ended, or the file is damaged.
        """
        if not self.results.is_file():
            raise RunError(f"{self.results} is absent: the run has not ended; resume it")
        try:
            results = json.loads(self.results.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.results} is damaged: {error}; resume the run to have it written again") from error
        if not isinstance(results, dict):
            raise RunError(f"{self.results} does not hold a run's results; resume the run to have it written again")
        return results
