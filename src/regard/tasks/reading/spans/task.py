"""Reading by pointing: a text and a question in, the words of the text that answer it out."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.data.reading.question_batches import QuestionBatch
from regard.data.reading.questions import question_of
from regard.layers.objective import Objective
from regard.models.reading.span_reader import SpanReader
from regard.tasks.core.config import branch
from regard.tasks.core.metrics import per_label
from regard.tasks.core.task import Task
from regard.tasks.reading.problems import MONITORS, problems_of
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.spans.data import Questions, example, prepare
from regard.tasks.reading.spans.evaluation import evaluate_run
from regard.tasks.reading.spans.predictor import SpansPredictor
from regard.tasks.reading.spans.view import span_view
from regard.views.view import View


def _loss(settings: ReadingSettings) -> Callable[[nn.Module, QuestionBatch], Objective]:
    def loss(model: nn.Module, batch: QuestionBatch) -> Objective:
        assert isinstance(model, SpanReader)
        return model.loss(batch)

    return loss


def _metrics(settings: ReadingSettings, data: Questions) -> Callable[[Any], dict[str, float]]:
    """Loss (nats) and the share of questions whose likeliest start and end are an answer's, of those held out."""

    def metrics(model: SpanReader) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            metrics = per_label(model.loss(batch.to(device)) for batch in data.held_out)
        return {"exact": metrics["accuracy"], "loss": metrics["loss"]}

    return metrics


def _problems(tree: dict[str, Any]) -> list[str]:
    wrong = problems_of(tree, "span", ["exact", "loss"])
    if branch(tree, "training").get("smoothing"):
        wrong.append("training.smoothing: most places cannot be an answer's end at all, so leave it 0")
    return wrong


def _view(answerer: SpansPredictor, text: str | None, *, language: str = "en") -> View:
    question = example(answerer.settings) if text is None else question_of(text)
    return span_view(answerer, question, language)


TASK = Task(
    settings=ReadingSettings,
    data=prepare,
    build=SpansPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=SpansPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
    examples=lambda answerer, evaluation: _view(answerer, None),
    monitors=MONITORS,
)
