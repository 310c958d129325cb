"""A treebank as a run needs it: split, its words known by their features, batched; and what the run keeps of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.data.messages import Information
from regard.data.settings import Part
from regard.data.tagging.batches import UNTAGGED, TaggedBatch, TaggedBatches
from regard.data.tagging.conllu import TaggedSentence, read_conllu
from regard.data.tagging.settings import NAMED, TaggingData
from regard.data.tagging.word_features import WordFeatures
from regard.data.text.hash_split import none_for, part_of
from regard.errors import ConfigError, DataError, a_few, nearest, quoted
from regard.files import read_json, write_json
from regard.tasks.core.task import Prepared
from regard.tasks.tagging.settings import TaggingSettings

_TAGS = "tags.json"
_WIDE = 8
"""Validation needs no gradients, so that as much more fits into a batch."""


@dataclass(frozen=True)
class Tags:
    """The tags, and the baseline that only counts.

    Attributes:
        names: by number.
        usual: the most frequent tag of each word of the training, in lower case.
        commonest: the most frequent tag of all, for words that were not there.
    """

    names: list[str]
    usual: dict[str, str]
    commonest: str

    @classmethod
    def of(cls, sentences: list[TaggedSentence]) -> "Tags":
        """Count the tags of some sentences; ties go by name."""
        counts: dict[str, Counter[str]] = {}
        for word, tag in ((word, tag) for one in sentences for word, tag in zip(one.words, one.tags, strict=True)):
            counts.setdefault(word.lower(), Counter())[tag] += 1
        overall: Counter[str] = sum(counts.values(), Counter())
        usual = {word: _most(each) for word, each in counts.items()}
        return cls(sorted(overall), usual, _most(overall))

    def guess(self, word: str) -> str:
        """The baseline's tag of a word."""
        return self.usual.get(word.lower(), self.commonest)

    def numbered(self, sentence: TaggedSentence) -> list[int]:
        """The number of each word's tag; `UNTAGGED` where training had none such."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return [numbers.get(tag, UNTAGGED) for tag in sentence.tags]

    def unseen(self, sentences: list[TaggedSentence]) -> str | None:
        """Which tags of some sentences training did not have, of how many words and where first; None if it had all."""
        known = set(self.names)
        found = [(tag, one.place) for one in sentences for tag in one.tags if tag not in known]
        if not found:
            return None
        tags, (first, place) = sorted({tag for tag, _ in found}), found[0]
        return (
            f"{len(found)} words have a tag that does not occur in training ({a_few(tags)}); {place}: the tag "
            f"{quoted(first)}.{nearest(first, self.names)}"
        )

    def save(self, folder: Path) -> None:
        """Write `tags.json`."""
        write_json(folder / _TAGS, {"names": self.names, "usual": self.usual, "commonest": self.commonest})

    @classmethod
    def load(cls, folder: Path) -> "Tags":
        """Read what `save` wrote.

        Raises:
            RunError: there is no such file, or it is damaged.
        """
        return read_json(folder / _TAGS, lambda kept: cls(**kept), "its tags")


def _most(counts: Counter[str]) -> str:
    return min(counts, key=lambda name: (-counts[name], name))


class Known(NamedTuple):
    """What a tagger needs besides its weights.

    Attributes:
        features: of words.
        tags: those that there are.
    """

    features: WordFeatures
    tags: Tags

    def save(self, folder: Path) -> None:
        """Write what is known of words and tags."""
        self.features.save(folder)
        self.tags.save(folder)

    @classmethod
    def load(cls, folder: Path) -> "Known":
        """Read what `save` wrote.

        Raises:
            RunError: a file is missing or damaged.
        """
        return cls(WordFeatures.load(folder), Tags.load(folder))


Treebank = Prepared[Known, TaggedBatch, TaggedBatches]
"""A run's sentences, ready to train on."""


def split(data: TaggingData) -> dict[Part, list[TaggedSentence]]:
    """The sentences by part; copies of one are all in one part, whatever their tags.

    Raises:
        ConfigError: no treebank is named.
        DataError: it cannot be read, or there are none for training or for validation.
    """
    if data.treebank is None:
        raise ConfigError(f"no treebank is named; give {NAMED}")
    parts: dict[Part, list[TaggedSentence]] = {"training": [], "validation": [], "test": []}
    for one in read_conllu(data.treebank, data.column):
        parts[part_of(" ".join(one.words), data.validation_share, data.test_share)].append(one)
    wanted: tuple[Part, ...] = ("training", "validation")
    for name in wanted:
        if not parts[name]:
            raise DataError(none_for(name, [" ".join(one.words) for held in parts.values() for one in held]))
    return parts


def prepare_treebank(settings: TaggingSettings, saved: Path | None, say: Callable[[str], None]) -> Treebank:
    """Read the sentences, learn or load what is known of words, and make batches.

    Args:
        settings: the run's.
        saved: where the run keeps its words and tags, if it has them already.
        say: called with how many sentences there are and what was cut.
    """
    data = settings.data
    parts = split(data)
    training = parts["training"]
    if saved is None:
        words = [word for one in training for word in one.words]
        features, tags = WordFeatures.train(words, least=data.least, affix=data.affix), Tags.of(training)
    else:
        features, tags = Known.load(saved)
    counts = " + ".join(f"{len(held)} {name}" for name, held in parts.items())
    say(Information(f"{counts} sentences; {len(tags.names)} tags, {len(features):,} features of words"))

    def batches(held: list[TaggedSentence], tokens: int) -> TaggedBatches:
        if cut := sum(len(one.words) > data.max_length for one in held):
            say(f"{cut} sentences have more than {data.max_length} words (data.max_length) and are cut")
        if unseen := tags.unseen(held):
            say(f"{unseen} They are left out of the validation")
        words = [[features.ids(word) for word in one.words[: data.max_length]] for one in held]
        numbers = [tags.numbered(one)[: data.max_length] for one in held]
        return TaggedBatches(words, numbers, tokens, settings.seed)

    learned, held_out = batches(training, data.tokens), batches(parts["validation"], _WIDE * data.tokens)
    return Prepared(Known(features, tags), learned, held_out)
