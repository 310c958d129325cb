"""How near the spans that a reader points at are to the right ones."""

from collections import Counter
from pathlib import Path
from typing import Any

from regard.data.reading.questions import Question, words_in
from regard.data.reading.settings import TestedStories
from regard.errors import DataError
from regard.metrics.buckets import by_length
from regard.metrics.spans import counted, exact, f1
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.reading.spans.data import held_out, tested
from regard.tasks.reading.spans.predictor import SpansPredictor

EDGES = (25, 50, 100, 200, 400)
"""Words of a text at which the next row of the table begins."""


def evaluate_run(answerer: SpansPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Answer the questions of a test, or those that the run held out; see `evaluate`.

    Args:
        answerer: of the run.
        run: its folder.
        test: values of `TestedStories`; {} for what the run held out.

    Raises:
        DataError: there are no questions with answers.
    """
    given, settings = check(TestedStories, test), answerer.settings
    return evaluate(answerer, tested(given, settings.seed) if given.given else held_out(settings))


def evaluate(answerer: SpansPredictor, questions: list[Question]) -> Evaluation:
    """Answer every question and compare.

    `exact` and `f1` are SQuAD's (`metrics.spans`), 0 to 1; no answer is right where the data say that there is none.
    `answerable`, where some have no answer, is the share of questions for which the model rightly says whether there is
    one.
    `looked` is, of questions with supporting facts, the share for which the sentence of most weight of the pointer to
    the first word is one of them. Beside them stands chance: a word of the text, or a sentence, drawn at random.

    Raises:
        DataError: no question comes with its answer.
    """
    found = [one for one in answerer.answer(questions) if one.question.answers is not None]
    if not found:
        raise DataError("there are no questions with answers to evaluate on")
    some_have_none = any(one.question.answers == () for one in found)

    def measure(places: list[int]) -> dict[str, float]:
        some = [found[at] for at in places]
        metrics = {
            "exact": sum(exact(one.text, _right(one.question)) for one in some) / len(some),
            "f1": sum(f1(one.text, _right(one.question)) for one in some) / len(some),
        }
        if some_have_none:
            metrics["answerable"] = sum((one.span is None) == (one.question.answers == ()) for one in some) / len(some)
        if facts := [one for one in some if one.question.supports]:
            metrics["looked"] = sum(one.most_read in one.question.supports for one in facts) / len(facts)
        return metrics

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
