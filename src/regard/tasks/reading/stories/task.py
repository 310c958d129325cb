"""Reading sentence by sentence: a story and a question in, one word out, and which sentences were read for it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.data.reading.story_batches import IGNORED, StoryBatch
from regard.layers.objective import Objective, objective
from regard.tasks.core.config import branch
from regard.tasks.core.metrics import per_label
from regard.tasks.core.task import Task
from regard.tasks.reading.problems import MONITORS, problems_of
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.stories.data import Stories, example, prepare_stories
from regard.tasks.reading.stories.evaluation import evaluate_run
from regard.tasks.reading.stories.predictor import StoriesPredictor, story_of
from regard.tasks.reading.stories.view import reading_view
from regard.views.view import View


def _loss(settings: ReadingSettings) -> Callable[[nn.Module, StoryBatch], Objective]:
    smoothing = settings.training.smoothing

    def loss(model: nn.Module, batch: StoryBatch) -> Objective:
        logits = model(batch.words, batch.kinds)
        return objective(logits.flatten(0, 1), batch.answers.flatten(), smoothing, IGNORED)

    return loss


def _metrics(settings: ReadingSettings, data: Stories) -> Callable[[Any], dict[str, float]]:
    """Right answers and loss per answer (nats) over the stories that are held out."""
    loss = _loss(settings.model_copy(update={"training": settings.training.model_copy(update={"smoothing": 0.0})}))

    def metrics(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            return per_label(loss(model, batch.to(device)) for batch in data.held_out)

    return metrics


def _problems(tree: dict[str, Any]) -> list[str]:
    wrong = problems_of(tree, "sentences", ["accuracy", "loss"])
    if branch(tree, "data").get("squad") is not None:
        wrong.append(
            "data.squad: its answers stand in its texts, and this reader answers with a "
            "word of its vocabulary; set model.kind=span"
        )
    if branch(branch(tree, "model"), "machine").get("kind") == "fixed":
        wrong.append(
            "model.machine.kind: fixed waits for an input that marks the question, and a sentence's vector has none; "
            "choose another, such as lstm"
        )
    return wrong


def _view(answerer: StoriesPredictor, text: str | None, *, language: str = "en") -> View:
    story = example(answerer.settings) if text is None else story_of(text)
    return reading_view(answerer, story, language)


TASK = Task(
    settings=ReadingSettings,
    data=prepare_stories,
    build=StoriesPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=StoriesPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
    examples=lambda answerer, evaluation: _view(answerer, None),
    monitors=MONITORS,
)
