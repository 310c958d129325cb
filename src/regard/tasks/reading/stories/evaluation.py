"""How many questions about stories are answered rightly, and from the right sentences."""

from pathlib import Path
from typing import Any

import torch

from regard.data.reading.babi import Story
from regard.data.reading.settings import TestedStories
from regard.errors import ConfigError, DataError
from regard.metrics.buckets import by_length
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.reading.stories.data import held_out, tested
from regard.tasks.reading.stories.predictor import StoriesPredictor

EDGES = (5, 9, 17, 33)
"""Sentences before the question at which the next row of the table begins."""


def evaluate_run(answerer: StoriesPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Answer the questions of a test, or those that the run held out; see `evaluate`.

    Args:
        answerer: of the run.
        run: its folder.
        test: values of `TestedStories`; {} for what the run held out.

    Raises:
        ConfigError: questions in the form of SQuAD are named, whose answers are spans.
    """
    given, settings = check(TestedStories, test), answerer.settings
    if given.squad is not None:
        raise ConfigError(
            "squad: its answers stand in its texts, and this reader answers with a word "
            "of its vocabulary; test one that points"
        )
    return evaluate(answerer, tested(given, settings.seed) if given.given else held_out(settings))


def evaluate(answerer: StoriesPredictor, stories: list[Story]) -> Evaluation:
    """Answer every question and compare.

    `accuracy` is the share of right answers; `loss` is −log of the right answer's probability, in nats. `looked`
    is, for models whose heads read and write and questions with supporting facts, the share of answers for which the
    sentence of most weight is one of these facts; its baseline is a sentence drawn at random from those before the
    question.

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
        metrics = {
            "accuracy": sum(one.answer == one.question.answer for one in some) / len(some),
            "loss": 0.0 - float(chances.clamp_min(1e-30).log().mean()),  # never −0
        }
        facts = [one for one in some if one.question.supports and one.looks]
        if facts:
            metrics["looked"] = sum(one.most_read in one.question.supports for one in facts) / len(facts)
        return metrics

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
    has_facts = "looked" in measures
    return Evaluation(
        items=len(answered),
        unit="questions",
        measures=measures,
        baselines={"chance": sum(chance) / len(chance)} if has_facts else {},
        baselined="looked" if has_facts else "",
        by="sentences",
        lengths=rows,
        notes=answerer.notes(line for story in stories for line in story.lines),
    )
