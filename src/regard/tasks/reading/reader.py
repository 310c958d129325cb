"""What the task of reading asks of a kind of reader."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.layers.objective import Objective
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.reading.settings import ReadingSettings
from regard.views.view import View


@dataclass(frozen=True)
class Reader:
    """The functions of a `Task` that differ from one kind of reader to the other; see there.

    Attributes:
        monitors: what a validation tells, by name.
    """

    data: Callable[[ReadingSettings, Path | None, Callable[[str], None]], Any]
    model: Callable[[ReadingSettings, Any], nn.Module]
    loss: Callable[[ReadingSettings], Callable[[nn.Module, Any], Objective]]
    metrics: Callable[[ReadingSettings, Any], Callable[[Any], dict[str, float]]]
    predict: Callable[[Path], Any]
    view: Callable[..., View]
    problems: Callable[[dict[str, Any]], list[str]]
    evaluate: Callable[[Any, Path, dict[str, Any]], Evaluation]
    monitors: tuple[str, ...]
