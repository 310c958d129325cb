"""The task of reading: a story and a question in, the answer out, and where was looked for it.

There are two kinds of readers: one goes sentence by sentence and tells a word (`sentence_reading`), the other points
at the words of the text that are the answer (`span_reading`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.reading.settings import NAMED, ORIGINS
from regard.layers.objective import Objective
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.runs import config_of
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Task
from regard.tasks.reading.reader import Reader
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.spans.task import SPANS
from regard.tasks.reading.stories.task import SENTENCES
from regard.views.view import View

READERS: dict[str, Reader] = {"sentences": SENTENCES, "span": SPANS}
"""By `model.kind`."""

_MONITORS: dict[str, Better] = {"accuracy": "max", "exact": "max", "f1": "max", "loss": "min"}


def reference_tensor(tree: dict[str, Any]) -> str:
    """Which reader a tree of settings names, or stands for."""
    model = tree.get("model")
    kind = str(model.get("kind", "sentences")) if isinstance(model, dict) else "sentences"
    return kind if kind in READERS else "sentences"


def _reader(settings: ReadingSettings) -> Reader:
    return READERS[settings.model.kind]


def _data(settings: ReadingSettings, saved: Path | None, say: Callable[[str], None]) -> Any:
    return _reader(settings).data(settings, saved, say)


def _model(settings: ReadingSettings, data: Any) -> nn.Module:
    return _reader(settings).model(settings, data)


def _loss(settings: ReadingSettings) -> Callable[[nn.Module, Any], Objective]:
    return _reader(settings).loss(settings)


def _metrics(settings: ReadingSettings, data: Any) -> Callable[[Any], dict[str, float]]:
    return _reader(settings).metrics(settings, data)


def _predict(folder: Path) -> Any:
    return READERS[reference_tensor(config_of(folder))].predict(folder)


def _problems(tree: dict[str, Any]) -> list[str]:
    data, training, kind = tree.get("data"), tree.get("training"), reference_tensor(tree)
    wrong = []
    if not isinstance(data, dict) or not any(data.get(origin) is not None for origin in ORIGINS):
        wrong.append(f"data: no stories to train on. Give {NAMED}")
    monitor = training.get("monitor", "loss") if isinstance(training, dict) else "loss"
    if monitor in _MONITORS and monitor not in READERS[kind].monitors:
        wrong.append(
            f"training.monitor: model.kind={kind} has no {monitor}; watch one of {', '.join(READERS[kind].monitors)}"
        )
    return wrong + READERS[kind].problems(tree)


def _evaluate(answerer: Any, run: Path, test: dict[str, Any]) -> Evaluation:
    return _reader(answerer.settings).evaluate(answerer, run, test)


def _view(answerer: Any, text: str | None, *, language: str = "en") -> View:
    return _reader(answerer.settings).view(answerer, text, language=language)


def _examples(answerer: Any, evaluation: Evaluation) -> View:
    return _view(answerer, None)


TASK = Task(
    name="reading",
    verb="answer",
    data=_data,
    model=_model,
    loss=_loss,
    metrics=_metrics,
    predict=_predict,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
    measures=ReadingSettings.measures,
    examples=_examples,
    monitors=_MONITORS,
)
