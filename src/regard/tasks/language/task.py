"""The task of language: the words so far in, the next one out, with what each word attended to.

Training reads windows, each from a fresh state: a batch is then all that an update depends on, so that windows can be
shuffled, shared by several processes, and found again by a resumed run bit for bit. A carried state would be one more
thing that changes from step to step, and would tie every row of a batch to one place of the text. Evaluation and
writing do carry the state, through all that was read.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.data.language.stream import WindowBatch
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.models.text.language_models import Model
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Task, missing_data
from regard.tasks.language.data import Text, prepare_text
from regard.tasks.language.evaluation import evaluate_run, evaluate_stream, measures_of
from regard.tasks.language.predictor import LanguagePredictor
from regard.tasks.language.settings import LanguageSettings
from regard.views.view import View

_SHOWN = 24
"""Tokens that are written to be shown, unless a number is given."""

_MONITORS: dict[str, Better] = {"loss": "min", "perplexity": "min", "accuracy": "max"}


def _loss(settings: LanguageSettings) -> Callable[[nn.Module, WindowBatch], Objective]:
    smoothing, apart = settings.training.smoothing, settings.data.documents == "apart"

    def loss(model: nn.Module, batch: WindowBatch) -> Objective:
        objective: Objective = model(batch.ids, smoothing, batch.documents) if apart else model(batch.ids, smoothing)
        return objective

    return loss


def _metrics(settings: LanguageSettings, text: Text) -> Callable[[Model], dict[str, float]]:
    def metrics(model: Model) -> dict[str, float]:
        return measures_of(evaluate_stream(model, text.held_out, settings))

    return metrics


def _problems(tree: dict[str, Any]) -> list[str]:
    return missing_data(tree, ["text"], "no text to train on. Give data.text=FILE")


def _view(
    writer: LanguagePredictor,
    text: str | None,
    *,
    language: str = "en",
    heads: bool = False,
    steps: bool = False,
    length: int | None = None,
    seed: int | None = None,
) -> View:
    if steps and heads:
        raise ConfigError("--heads and --steps are pictures of their own; give one of them by itself")
    if steps:
        how: dict[str, Any] = {"length": _SHOWN if length is None else length}
        drawn = {"sample": False} if seed is None else {"seed": seed}
        return writer.steps(text or "", language=language, **how, **drawn)
    if text is None:
        raise ConfigError("say what to read: regard show RUN TEXT; or regard show RUN TEXT --steps, to continue it")
    if length is not None or seed is not None:
        raise ConfigError("--length and --seed are for generated text: they go with --steps")
    return writer.view(text, language, heads)


TASK = Task(
    settings=LanguageSettings,
    data=prepare_text,
    build=LanguagePredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=LanguagePredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
    monitors=_MONITORS,
)
