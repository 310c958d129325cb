"""The task of masked language: a text with gaps in, the masked tokens out.

In training a token that is to be predicted is replaced in one of three ways, so that the model can trust no input token
(`data.masked.settings.Masking`). In a validation or a test every such token is read as [MASK].
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.data.masked.batches import MaskedBatch
from regard.data.masked.settings import NAMED
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.models.text.masked import MaskedLanguageModel
from regard.tasks.core.task import Task, missing_data
from regard.tasks.masked.data import Text, prepare_text
from regard.tasks.masked.evaluation import evaluate_run, measured
from regard.tasks.masked.predictor import MaskedPredictor
from regard.tasks.masked.settings import MaskedSettings
from regard.views.view import View


def _loss(settings: MaskedSettings) -> Callable[[nn.Module, MaskedBatch], Objective]:
    smoothing = settings.training.smoothing

    def loss(model: nn.Module, batch: MaskedBatch) -> Objective:
        objective: Objective = model(batch, smoothing)
        return objective

    return loss


def _metrics(settings: MaskedSettings, text: Text) -> Callable[[MaskedLanguageModel], dict[str, float]]:
    def metrics(model: MaskedLanguageModel) -> dict[str, float]:
        return measured(model, text.held_out)

    return metrics


def _problems(tree: dict[str, Any]) -> list[str]:
    return missing_data(tree, ("text", "standard_library"), f"no text to train on. Give {NAMED}")


def _view(filler: MaskedPredictor, text: str | None, *, language: str = "en", heads: bool = True) -> View:
    # Of a Transformer encoder the heads are shown in any case: there is nothing else to show.
    if text is None:
        raise ConfigError("say what to read: regard show RUN 'TEXT with [MASK]'")
    return filler.view(text, language)


TASK = Task(
    settings=MaskedSettings,
    data=prepare_text,
    build=MaskedPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=MaskedPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
)
