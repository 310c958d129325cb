"""Reading sentence by sentence: a story and a question in, one word out, and which sentences were read for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.reading.babi import Story
from regard.data.reading.settings import TestedStories
from regard.data.reading.story_batches import IGNORED, StoryBatch
from regard.errors import ConfigError, DataError
from regard.layers.objective import Objective, objective
from regard.metrics.buckets import by_length
from regard.tasks.core.config import branch, check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import per_label
from regard.tasks.core.task import Task
from regard.tasks.reading.problems import MONITORS, problems_of
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.stories.data import Stories, example, held_out, prepare_stories, tested
from regard.tasks.reading.stories.predictor import StoriesPredictor, story_of
from regard.tasks.reading.stories.view import reading_view
from regard.views.view import View

EDGES = (5, 9, 17, 33)
"""Sentences before the question at which the next row of the table begins."""


def _loss(settings: ReadingSettings) -> Callable[[nn.Module, StoryBatch], Objective]:
    smoothing = settings.training.smoothing

    def loss(model: nn.Module, batch: StoryBatch) -> Objective:
        logits = model(batch.words, batch.kinds)
        return objective(logits.flatten(0, 1), batch.answers.flatten(), smoothing, IGNORED)

    return loss


def _metrics(settings: ReadingSettings, data: Stories) -> Callable[[Any], dict[str, float]]:
    """Right answers and loss an answer (nats) over the stories that are held out."""
    loss = _loss(settings.model_copy(update={"training": settings.training.model_copy(update={"smoothing": 0.0})}))

    def metrics(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            return per_label(loss(model, batch.to(device)) for batch in data.held_out)

    return metrics


def _problems(tree: dict[str, Any]) -> list[str]:
    wrong = problems_of(tree, "sentences", ["accuracy", "loss"])
    if branch(tree, "data").get("squad") is not None:
        wrong.append("data.squad: its answers stand in its texts, and this reader tells a word; set model.kind=span")
    if branch(branch(tree, "model"), "machine").get("kind") == "fixed":
        wrong.append(
            "model.machine.kind: fixed waits for an input that marks the question, and a sentence's vector has none; "
            "choose another, such as lstm"
        )
    return wrong


def _evaluate(answerer: StoriesPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    given, settings = check(TestedStories, test), answerer.settings
    if given.squad is not None:
        raise ConfigError("squad: its answers stand in its texts, and this reader tells a word; test one that points")
    return evaluate(answerer, tested(given, settings.seed) if given.given else held_out(settings))


def evaluate(answerer: StoriesPredictor, stories: list[Story]) -> Evaluation:
    """Answer every question and compare.

    Accuracy is the share of right answers; loss −log of the right answer's probability, in nats. Looked is, for models
    whose heads read and write and questions whose facts are told, the share of answers for which the sentence that was
    read most is one of these facts; its baseline is a sentence drawn at random from those before the question.

    Raises:
        DataError: there is no question with an answer, or an answer that is none of the model's.
    """
    answered = [one for one in answerer.answer(stories) if one.question.answer is not None]
    if not answered:
        raise DataError("there are no questions with answers to evaluate on")
    for one in answered:
        answerer.vocabulary.number(str(one.question.answer), one.story.place)

    def measure(places: list[int]) -> dict[str, float]:
        some = [answered[at] for at in places]
        chances = torch.tensor([one.probabilities[str(one.question.answer)] for one in some], dtype=torch.float64)
        told = {
            "accuracy": sum(one.answer == one.question.answer for one in some) / len(some),
            "loss": 0.0 - float(chances.clamp_min(1e-30).log().mean()),  # never −0
        }
        facts = [one for one in some if one.question.supports and one.looks]
        if facts:
            told["looked"] = sum(one.most_read in one.question.supports for one in facts) / len(facts)
        return told

    measures = measure(list(range(len(answered))))
    chance = [len(set(one.question.supports)) / len(one.facts) for one in answered if one.question.supports]
    rows = [
        {
            "sentences": str(bucket),
            "questions": bucket.count,
            **{name: None if bucket.value is None else bucket.value.get(name) for name in measures},
        }
        for bucket in by_length([len(one.facts) for one in answered], EDGES, measure)
    ]
    looked = "looked" in measures
    return Evaluation(
        items=len(answered),
        unit="questions",
        measures=measures,
        baselines={"chance": sum(chance) / len(chance)} if looked else {},
        baselined="looked" if looked else "",
        by="sentences",
        lengths=rows,
        notes=answerer.notes(line for story in stories for line in story.lines),
    )


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
    evaluate=_evaluate,
    examples=lambda answerer, evaluation: _view(answerer, None),
    monitors=MONITORS,
)
