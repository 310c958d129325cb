"""Labelled sentences as a run needs them: split, cut into tokens, batched; and what the run keeps of them."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.classification.batches import SentenceBatch, SentenceBatches
from regard.data.classification.labelled import Labelled, labels_of, read_labelled, without_a_sentence
from regard.data.classification.settings import ClassificationData
from regard.data.messages import Information
from regard.data.settings import Part
from regard.data.text.hash_split import none_for, part_of
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
from regard.errors import DataError, nearest, quoted
from regard.files import read_json, write_json
from regard.tasks.classification.settings import ClassificationSettings
from regard.tasks.core.task import Prepared

_LABELS = "labels.json"
_WIDE = 8
"""Validation needs no gradients, so that as much more fits into a batch."""


class Known(NamedTuple):
    """What a classifier needs besides its weights.

    Attributes:
        tokenizer: of the text.
        labels: by number.
    """

    tokenizer: Tokenizer
    labels: list[str]

    def save(self, folder: Path) -> None:
        """Write the vocabulary and the labels."""
        self.tokenizer.save(folder)
        write_json(folder / _LABELS, self.labels)

    @classmethod
    def load(cls, folder: Path) -> "Known":
        """Read what `save` wrote.

        Raises:
            RunError: a file is missing or damaged.
        """
        return cls(load_tokenizer(folder), read_json(folder / _LABELS, _labels, "its labels"))


Sentences = Prepared[Known, SentenceBatch, SentenceBatches]
"""A run's sentences, ready to train on."""


def _labels(kept: Any) -> list[str]:
    if not isinstance(kept, list) or not all(isinstance(one, str) for one in kept):
        raise ValueError("a list of labels is expected")
    return kept


def split(sentences: list[Labelled], data: ClassificationData) -> dict[Part, list[Labelled]]:
    """The sentences by part; copies of a text are all in one.

    Raises:
        DataError: a part has none.
    """
    parts: dict[Part, list[Labelled]] = {"training": [], "validation": [], "test": []}
    for one in sentences:
        parts[part_of(one.text, data.validation_share, data.test_share)].append(one)
    for name, held in parts.items():
        if not held:
            raise DataError(none_for(name, [one.text for one in sentences]))
    return parts


def prepare_sentences(settings: ClassificationSettings, saved: Path | None, say: Callable[[str], None]) -> Sentences:
    """Read the sentences, learn or load the vocabulary, and make batches.

    Args:
        settings: the run's.
        saved: where the run keeps its vocabulary and labels, if it has them already.
        say: called with how many there are and what was cut.
    """
    data = settings.data
    sentences = read_labelled(data)
    for file in without_a_sentence(data, sentences):
        say(f"{file}; that label is not learned")
    parts = split(sentences, data)
    training = parts["training"]
    if saved is None:
        tokenizer = train_tokenizer(
            data.tokenizer, [one.text for one in training], data.vocabulary_size, lower=data.lower
        )
        labels = labels_of(training)
    else:
        tokenizer, labels = Known.load(saved)
    counts = " + ".join(f"{len(held)} {name}" for name, held in parts.items())
    of_each = ", ".join(f"{label} {count}" for label, count in sorted(Counter(one.label for one in training).items()))
    say(Information(f"{counts} sentences; in training: {of_each}"))

    def batches(held: list[Labelled], tokens: int) -> SentenceBatches:
        ids = [tokenizer.encode(one.text).ids for one in held]
        if cut := sum(len(one) > data.max_length for one in ids):
            say(f"{cut} sentences have more than {data.max_length} tokens (data.max_length) and are cut")
        return SentenceBatches([one[: data.max_length] for one in ids], numbered(held, labels), tokens, settings.seed)

    learned, held_out = batches(training, data.tokens), batches(parts["validation"], _WIDE * data.tokens)
    return Prepared(Known(tokenizer, labels), learned, held_out)


def numbered(sentences: list[Labelled], labels: list[str]) -> list[int]:
    """The number of each sentence's label.

    Raises:
        DataError: a label is not among them.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    for one in sentences:
        if one.label not in numbers:
            raise DataError(
                f"{one.place}: the label {quoted(one.label)} does not occur in training.{nearest(one.label, numbers)}"
            )
    return [numbers[one.label] for one in sentences]
