"""The task of classification: a sentence in, its label out, with what each word attended to."""

from typing import Any

from regard.data.classification.settings import NAMED, ORIGINS
from regard.errors import ConfigError
from regard.models.text.bidirectional import BidirectionalTransformer
from regard.tasks.classification.data import prepare_sentences
from regard.tasks.classification.evaluation import evaluate_run
from regard.tasks.classification.predictor import ClassificationPredictor
from regard.tasks.classification.settings import ClassificationSettings
from regard.tasks.core.metrics import loss_of, metrics_of
from regard.tasks.core.task import Task, missing_data
from regard.tasks.views.heads import heads_view
from regard.views.view import View


def _problems(tree: dict[str, Any]) -> list[str]:
    return missing_data(tree, ORIGINS, f"no sentences to train on. Give {NAMED}")


def _view(classifier: ClassificationPredictor, text: str | None, *, language: str = "en", heads: bool = False) -> View:
    if text is None:
        raise ConfigError("say what to read: regard show RUN TEXT")
    if heads and not isinstance(classifier.model.reader, BidirectionalTransformer):
        return heads_view([])  # which says that there are none
    return classifier.view(text, language)


TASK = Task(
    settings=ClassificationSettings,
    data=prepare_sentences,
    build=ClassificationPredictor.build,
    loss=loss_of,
    metrics=lambda settings, data: metrics_of(data.held_out),
    load=ClassificationPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
)
