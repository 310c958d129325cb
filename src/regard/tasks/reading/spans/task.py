"""Reading by pointing: a text and a question in, the words of the text that answer it out."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.reading.question_batches import QuestionBatch
from regard.data.reading.questions import Question, question_of, words_in
from regard.data.reading.settings import TestedStories
from regard.errors import DataError
from regard.layers.objective import Objective
from regard.metrics.buckets import by_length
from regard.metrics.spans import counted, exact, f1
from regard.models.reading.span_reader import SpanReader
from regard.tasks.core.config import branch, check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import per_label
from regard.tasks.core.task import Task
from regard.tasks.reading.problems import MONITORS, problems_of
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.spans.data import Questions, example, held_out, prepare, tested
from regard.tasks.reading.spans.predictor import SpansPredictor
from regard.tasks.reading.spans.view import span_view
from regard.views.view import View

EDGES = (25, 50, 100, 200, 400)
"""Words of a text at which the next row of the table begins."""


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
            told = per_label(model.loss(batch.to(device)) for batch in data.held_out)
        return {"exact": told["accuracy"], "loss": told["loss"]}

    return metrics


def _problems(tree: dict[str, Any]) -> list[str]:
    wrong = problems_of(tree, "span", ["exact", "loss"])
    if branch(tree, "training").get("smoothing"):
        wrong.append("training.smoothing: most places cannot be an answer's end at all, so leave it 0")
    return wrong


def _evaluate(answerer: SpansPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    given, settings = check(TestedStories, test), answerer.settings
    return evaluate(answerer, tested(given, settings.seed) if given.given else held_out(settings))


def evaluate(answerer: SpansPredictor, questions: list[Question]) -> Evaluation:
    """Answer every question and compare.

    Exact and f1 are SQuAD's (`metrics.spans`), 0 to 1; no answer is right where the data say that there is none.
    Answerable is the share of questions for which was rightly told whether they have an answer, where some have none.
    Looked is, of questions whose facts are told, the share for which the sentence that the pointer to the first word
    looked at most is one of these facts. Beside them stands chance: a word of the text, or a sentence, drawn at random.
    """
    found = [one for one in answerer.answer(questions) if one.question.answers is not None]
    if not found:
        raise DataError("there are no questions with answers to evaluate on")
    some_have_none = any(one.question.answers == () for one in found)

    def measure(places: list[int]) -> dict[str, float]:
        some = [found[at] for at in places]
        told = {
            "exact": sum(exact(one.text, _right(one.question)) for one in some) / len(some),
            "f1": sum(f1(one.text, _right(one.question)) for one in some) / len(some),
        }
        if some_have_none:
            told["answerable"] = sum((one.span is None) == (one.question.answers == ()) for one in some) / len(some)
        if facts := [one for one in some if one.question.supports]:
            told["looked"] = sum(one.most_read in one.question.supports for one in facts) / len(facts)
        return told

    measures = measure(list(range(len(found))))
    rows = [
        {
            "words": str(bucket),
            "questions": bucket.count,
            **{name: bucket.value.get(name) for name in measures},
        }
        for bucket in by_length([len(words_in(one.question.text)) for one in found], EDGES, measure)
        if bucket.value is not None
    ]
    guessed = sum(_guessed(one.question) for one in found) / len(found)
    facts = [len(set(one.question.supports)) / len(one.question.sentences) for one in found if one.question.supports]
    return Evaluation(
        items=len(found),
        unit="questions",
        measures=measures,
        signatures={"exact": f"a word drawn at random {guessed:.3f}"} if facts else {},
        baselines={"chance": sum(facts) / len(facts)} if facts else {"word": guessed},
        baselined="looked" if facts else "exact",
        by="words",
        lengths=rows,
        notes=answerer.noted(questions),
    )


def _right(question: Question) -> list[str]:
    return [one.text for one in question.answers or ()]


def _guessed(question: Question) -> float:
    """How often a word of the text, drawn at random, is an exact answer."""
    words = Counter(" ".join(counted(word.text)) for word in words_in(question.text))
    right = {" ".join(counted(one)) for one in _right(question)}
    return sum(words[one] for one in right) / words.total()


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
    evaluate=_evaluate,
    examples=lambda answerer, evaluation: _view(answerer, None),
    monitors=MONITORS,
)
