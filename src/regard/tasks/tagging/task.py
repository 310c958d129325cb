"""The task of tagging: the words of a sentence in, a tag of each out, with the attention of every head."""

from typing import Any

from regard.data.tagging.settings import NAMED
from regard.errors import ConfigError
from regard.tasks.core.metrics import loss_of, metrics_of
from regard.tasks.core.task import Task, missing_data
from regard.tasks.tagging.data import prepare_treebank
from regard.tasks.tagging.evaluation import evaluate_run
from regard.tasks.tagging.predictor import TaggingPredictor
from regard.tasks.tagging.settings import TaggingSettings
from regard.views.view import View


def _problems(tree: dict[str, Any]) -> list[str]:
    return missing_data(tree, ["treebank"], f"no sentences to train on. Give {NAMED}")


def _view(tagger: TaggingPredictor, text: str | None, *, language: str = "en", heads: bool = True) -> View:
    # Of a Transformer encoder the heads are shown in any case: there is nothing else to see.
    if text is None:
        raise ConfigError("say what to read: regard show RUN TEXT")
    return tagger.view(text, language)


TASK = Task(
    settings=TaggingSettings,
    data=prepare_treebank,
    build=TaggingPredictor.build,
    loss=loss_of,
    metrics=lambda settings, data: metrics_of(data.held_out),
    load=TaggingPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
)
