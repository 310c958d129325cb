"""What is wrong in settings of a reader, of either kind."""

from collections.abc import Sequence
from typing import Any

from regard.data.reading.settings import NAMED, ORIGINS
from regard.tasks.core.config import branch
from regard.tasks.core.settings import Better
from regard.tasks.core.task import missing_data

MONITORS: dict[str, Better] = {"accuracy": "max", "exact": "max", "f1": "max", "loss": "min"}
"""What validations of readers measure; each kind has some of these."""


def problems_of(tree: dict[str, Any], kind: str, monitors: Sequence[str]) -> list[str]:
    """The faults that settings of both kinds of readers may have, one line each.

    Args:
        tree: of the settings.
        kind: of the reader, `model.kind`.
        monitors: what a validation of this kind measures.
    """
    wrong = missing_data(tree, ORIGINS, f"no stories to train on. Give {NAMED}")
    monitor = branch(tree, "training").get("monitor", "loss")
    if monitor in MONITORS and monitor not in monitors:
        wrong.append(f"training.monitor: model.kind={kind} has no {monitor}; watch one of {', '.join(monitors)}")
    return wrong
