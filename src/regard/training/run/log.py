"""The record of a run: `metrics.jsonl` and TensorBoard events, without lines that a resumed run would repeat."""

import json
import math
import os
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from regard.files import write_atomically
from regard.training.run.run import RunFolder


class Log:
    """Writes one JSON object per line; others can read each line at once.

    Args:
        run: where to.
        step: the step the run stands at; what was written of later steps is cut, since it comes again.
    """

    def __init__(self, run: RunFolder, step: int) -> None:
        kept = [line for line in run.read_metrics() if line["step"] <= step] if step else []
        write_atomically(run.metrics, "".join(_line(line) for line in kept))
        self._file = open(run.metrics, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._events = SummaryWriter(str(run.events), purge_step=step + 1)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Add a line. Numbers that are not finite are written as null, for JSON has none.

        Args:
            kind: "train" or "validation".
            step: updates made.
            values: numbers and words by name; numbers also go to TensorBoard as `kind/name`.
        """
        self._file.write(_line({"kind": kind, "step": step, **values}))
        self._file.flush()
        for name, value in values.items():
            if isinstance(value, int | float):
                self._events.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Bring all lines to the disk, before a checkpoint that counts on them."""
        os.fsync(self._file.fileno())
        self._events.flush()

    def close(self) -> None:
        """Close both files."""
        self._file.close()
        self._events.close()


def _line(values: dict[str, Any]) -> str:
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
    return json.dumps(finite, ensure_ascii=False, allow_nan=False) + "\n"
