"""How many words get the right tag, those of the training and others."""

import math
from pathlib import Path
from typing import Any

from regard.data.tagging.conllu import TaggedSentence, read_conllu
from regard.data.tagging.settings import TestedTreebank
from regard.errors import DataError
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.tagging.data import split
from regard.tasks.tagging.predictor import TaggingPredictor


def evaluate_run(tagger: TaggingPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Tag the sentences of a treebank, or those that the run held out; see `evaluate`.

    Args:
        tagger: of the run.
        run: its folder.
        test: values of `TestedTreebank`; {} for what the run held out.

    Raises:
        DataError: there are no sentences.
    """
    tested, own = check(TestedTreebank, test), tagger.settings.data
    sentences = split(own)["test"] if tested.treebank is None else read_conllu(tested.treebank, own.column)
    return evaluate(tagger, sentences)


def evaluate(tagger: TaggingPredictor, sentences: list[TaggedSentence]) -> Evaluation:
    """Tag the words of a treebank and compare.

    Accuracy is the share of words with the right tag; loss −log of the right tag's probability, in nats per word. The
    baseline gives each word its most frequent tag of the training, and unseen words the most frequent of all. The words
    beyond the model's limit count as wrong, with the loss of a guess; so do those whose tag training did not have.

    Raises:
        DataError: there are no sentences, or training had none of their tags.
    """
    if not sentences:
        raise DataError("there are no sentences to evaluate on; name some: treebank=FILE.conllu")
    unseen = tagger.tags.unseen(sentences)
    if unseen and not any(tag in tagger.tags.names for one in sentences for tag in one.tags):
        raise DataError(f"{unseen} These are tags of another kind: see data.column")
    read = [tagger.words(one.words, line=number) for number, one in enumerate(sentences, start=1)]
    answers = list(tagger.tag_words(read))
    right: dict[str, list[tuple[bool, float]]] = {"known": [], "unknown": []}
    guessed, count = 0, 0
    guess = math.log(len(tagger.tags.names))
    for one, answer in zip(sentences, answers, strict=True):
        for at, (word, tag) in enumerate(zip(one.words, one.tags, strict=True)):
            said = at < len(answer.tags)
            nats = -math.log(answer.probabilities[at][tag]) if said and tag in answer.probabilities[at] else guess
            right["known" if word.lower() in tagger.tags.usual else "unknown"].append(
                (said and answer.tags[at] == tag, nats)
            )
            guessed += tagger.tags.guess(word) == tag
            count += 1
    return Evaluation(
        items=count,
        unit="words",
        measures=_measures([*right["known"], *right["unknown"]]),
        signatures={"accuracy": f"{tagger.settings.data.column} of {len(sentences):,} sentences, words as given"},
        baselines={"the most frequent tag of each word": guessed / count},
        baselined="accuracy",
        by="in training",
        lengths=[
            {
                "in training": name,
                "words": len(some),
                **(_measures(some) if some else dict.fromkeys(("accuracy", "loss"))),
            }
            for name, some in right.items()
        ],
        notes=[
            *([f"{unseen} They count as wrong"] if unseen else []),
            *(f"sentence {one.line}: {one.note}" for one in answers if one.note),
        ],
    )


def _measures(words: list[tuple[bool, float]]) -> dict[str, float]:
    return {
        "accuracy": sum(right for right, _ in words) / len(words),
        "loss": sum(nats for _, nats in words) / len(words),
    }
