"""A trained tagger: texts in, their words with a tag each out, in order."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from regard.data.batching import pad_words
from regard.data.settings import WordUnit
from regard.data.tagging.word_features import WordFeatures
from regard.data.text.lines import several
from regard.data.text.units import split_words
from regard.decoding.batches import in_order
from regard.errors import DataError
from regard.models.text.tagger import Tagger
from regard.tasks.core.config import check
from regard.tasks.core.runs import open_run
from regard.tasks.tagging.data import Tags
from regard.tasks.tagging.settings import TaggingSettings
from regard.tasks.views.heads import heads_of, heads_view
from regard.training.run.checkpoint import load_weights
from regard.views.view import View
from regard.vocabulary import UNKNOWN


class Words(NamedTuple):
    """One line as the model reads it.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        words: cut to the model's limit.
        note: what was done to it, or None.
    """

    line: int
    text: str
    words: list[str]
    note: str | None


class Tagged(NamedTuple):
    """What the model says of one line.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        words: of the text.
        tags: of each word, the likeliest.
        probabilities: of each tag, by word.
        note: what was done to the line, or None.
    """

    line: int
    text: str
    words: list[str]
    tags: list[str]
    probabilities: list[dict[str, float]]
    note: str | None

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


class SentenceTagger:
    """A tagger with what it knows of words and tags.

    Args:
        model: in eval mode from here on.
        features: of words.
        tags: by number.
        settings: those of its run.
    """

    def __init__(self, model: Tagger, features: WordFeatures, tags: Tags, settings: TaggingSettings) -> None:
        model.eval()
        self.model, self.features, self.tags, self.settings = model, features, tags, settings

    def tag(self, texts: Sequence[str], *, counted: WordUnit = "tokenizer", batch: int = 64) -> list[Tagged]:
        """The words of each text with their tags, in order; see `stream`."""
        return list(self.stream(several(texts), counted=counted, batch=batch))

    def stream(
        self, lines: Iterable[str], *, counted: WordUnit = "tokenizer", batch: int = 64, chunk: int | None = None
    ) -> Iterator[Tagged]:
        """One answer a line, in order, while the lines are being read: 16 batches at a time are in memory.

        A line above the model's limit is cut, and its answer says so.

        Args:
            lines: texts without line breaks.
            counted: what a word is: regard's own units, or what stands between white space.
            batch: sentences computed together; changes a probability by no more than float32 rounds.
            chunk: lines read before the first answer comes, 16 batches by default.

        Raises:
            DataError: a text is not valid Unicode.
        """
        read = (self.read(split_words(text, counted), text, line) for line, text in enumerate(lines, start=1))
        yield from self.tag_words(read, batch=batch, chunk=chunk)

    def tag_words(self, lines: Iterable[Words], *, batch: int = 64, chunk: int | None = None) -> Iterator[Tagged]:
        """The same for words that are known already."""
        yield from in_order(lines, lambda one: len(one.words), batch, self._told, empty=_blank, chunk=chunk)

    def read(self, words: Sequence[str], text: str | None = None, line: int = 1) -> Words:
        """A sentence of words, cut to the limit that training had."""
        most, note = self.settings.data.max_length, None
        if len(words) > most:
            note = f"{len(words)} words are more than the model's {most}; the line is cut after {most}"
        return Words(line, " ".join(words) if text is None else text, list(words[:most]), note)

    @torch.no_grad()
    def view(self, text: str, language: str = "en") -> View:
        """Where each layer and head looked from each word.

        Raises:
            DataError: the text has no words.
        """
        sentence = self.read(split_words(text, "tokenizer"), text)
        if not sentence.words:
            raise DataError("the text is empty: there is nothing to look at")
        attended = self.model.read(*self._tensors([sentence])).attended
        [told] = self._told([sentence])
        notes = [str(told), *([told.note] if told.note else [])]
        return heads_view(heads_of(attended, sentence.words), notes, language)

    @torch.no_grad()
    def _told(self, sentences: list[Words]) -> list[Tagged]:
        self.model.eval()
        ids, lengths = self._tensors(sentences)
        rows = self.model(ids, lengths).double().softmax(-1).cpu()
        told = []
        for sentence, row in zip(sentences, rows, strict=True):
            real = row[: len(sentence.words)]
            tags = [self.tags.names[best] for best in real.argmax(-1).tolist()]
            each = [dict(zip(self.tags.names, one, strict=True)) for one in real.tolist()]
            told.append(Tagged(sentence.line, sentence.text, sentence.words, tags, each, sentence.note))
        return told

    def _tensors(self, sentences: list[Words]) -> tuple[torch.Tensor, torch.Tensor]:
        device = next(self.model.parameters()).device
        ids, lengths = pad_words([[self.features.ids(word) for word in one.words] for one in sentences])
        return ids.to(device), lengths.to(device)


def _blank(sentence: Words) -> Tagged:
    return Tagged(sentence.line, sentence.text, [], [], [], None)


def load_tagger(folder: str | Path) -> SentenceTagger:
    """The tagger of a run folder, with its best weights.

    Raises:
        RunError: there is no run, or no weights yet, or they are damaged.
        ConfigError: the run's settings cannot be used.
    """
    run = open_run(folder)
    settings = check(TaggingSettings, run.read_config())
    features, tags = WordFeatures.load(run.tokenizers), Tags.load(run.tokenizers)
    model = Tagger(settings.model, len(features), len(tags.names), UNKNOWN)
    load_weights(model, run.weights)
    return SentenceTagger(model, features, tags, settings)
