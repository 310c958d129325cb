"""How many sentences get the right label, and how probable the right one is."""

from collections import Counter
from pathlib import Path
from typing import Any

import torch

from regard.data.classification.labelled import Labelled, read_labelled
from regard.data.classification.settings import TestedSentences
from regard.data.text.hash_split import part_of
from regard.errors import ConfigError, DataError
from regard.metrics.buckets import by_length
from regard.tasks.classification.data import numbered, split
from regard.tasks.classification.predictor import ClassificationPredictor
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation

EDGES = (10, 20, 30)
"""Lengths in words at which the next row of the table begins."""


def evaluate_run(classifier: ClassificationPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Judge the sentences of a test, or those that the run held out; see `evaluate`.

    Args:
        classifier: of the run.
        run: its folder.
        test: values of `TestedSentences`; {} for what the run held out.

    Raises:
        ConfigError: the part of named files is chosen, and none is named.
    """
    tested, own = check(TestedSentences, test), classifier.settings.data
    if not tested.given:
        if tested.part not in ("all", "test"):
            raise ConfigError(f"part={tested.part} says which of the sentences of named files are tested; name some")
        return evaluate(classifier, split(read_labelled(own), own)["test"])
    sentences = read_labelled(tested)
    if tested.part != "all":
        shares = own.validation_share, own.test_share
        sentences = [one for one in sentences if part_of(one.text, *shares) == tested.part]
    return evaluate(classifier, sentences)


def evaluate(classifier: ClassificationPredictor, sentences: list[Labelled]) -> Evaluation:
    """Judge sentences and compare with their labels.

    Accuracy is the share of right labels; loss −log of the right label's probability, in nats per sentence. The
    baseline always predicts the label that is most frequent among the sentences.

    Raises:
        DataError: there are none, or a label is not one of the model's.
    """
    if not sentences:
        raise DataError("there are no sentences to evaluate on")
    numbers = numbered(sentences, classifier.labels)
    verdicts = classifier.classify([one.text for one in sentences])
    right = [verdict.label == one.label for verdict, one in zip(verdicts, sentences, strict=True)]
    chances = [
        # A line without words has no label.
        verdict.probabilities[one.label] if verdict.label else 1 / len(classifier.labels)
        for verdict, one in zip(verdicts, sentences, strict=True)
    ]
    nats = (-torch.tensor(chances, dtype=torch.float64).log()).tolist()

    def measure(places: list[int]) -> dict[str, float]:
        return {
            "accuracy": sum(right[at] for at in places) / len(places),
            "loss": sum(nats[at] for at in places) / len(places),
        }

    lengths = [len(classifier.tokenizer.words(one.text)) for one in sentences]
    rows = [
        {
            "words": str(bucket),
            "sentences": bucket.count,
            **(bucket.value or dict.fromkeys(("accuracy", "loss"))),
        }
        for bucket in by_length(lengths, EDGES, measure)
    ]
    return Evaluation(
        items=len(sentences),
        unit="sentences",
        measures=measure(list(range(len(sentences)))),
        baselines={"the most frequent label": max(Counter(numbers).values()) / len(numbers)},
        baselined="accuracy",
        by="words",
        lengths=rows,
        notes=[f"sentence {one.line}: {one.note}" for one in verdicts if one.note],
    )
