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
from regard.errors import DataError
from regard.models.text.tagger import Tagger
from regard.tasks.core.lines import cut_note
from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.tagging.data import Known, Tags
from regard.tasks.tagging.settings import TaggingSettings
from regard.tasks.views.heads import heads_of, heads_view
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
    """What the model predicts for one line.

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


class TaggingPredictor(StreamPredictor[TaggingSettings, Known, Tagger, str, Words, Tagged]):
    """A tagger with what it knows of words and tags."""

    settings_type = TaggingSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Known:
        """What is known of words and tags."""
        return Known.load(folder)

    @classmethod
    def build(cls, settings: TaggingSettings, parts: Known) -> Tagger:
        """A tagger with fresh weights."""
        return Tagger(settings.model, len(parts.features), len(parts.tags.names), UNKNOWN)

    @property
    def features(self) -> WordFeatures:
        """Of words."""
        return self.parts.features

    @property
    def tags(self) -> Tags:
        """By number."""
        return self.parts.tags

    def tag(self, texts: Sequence[str], *, counted: WordUnit = "tokenizer", batch: int = 64) -> list[Tagged]:
        """The words of each text with their tags, in order; see `stream`."""
        return list(self.stream(several(texts), counted=counted, batch=batch))

    def stream(
        self,
        items: Iterable[str],
        *,
        counted: WordUnit = "tokenizer",
        batch: int = 64,
        chunk: int | None = None,
        first: int = 1,
    ) -> Iterator[Tagged]:
        """One answer per line, in order, while the lines are being read: 16 batches at a time are in memory.

        A line above the model's limit is cut, and its answer says so.

        Args:
            items: texts without line breaks.
            counted: what a word is: regard's own units, or what stands between white space.
            batch: sentences computed together; changes a probability by no more than float32 rounds.
            chunk: lines read before the first answer comes, 16 batches by default.
            first: the number of the first line.

        Raises:
            DataError: a text is not valid Unicode.
        """
        read = (self.words(split_words(text, counted), text, line) for line, text in enumerate(items, start=first))
        yield from self.tag_words(read, batch=batch, chunk=chunk)

    def tag_words(self, lines: Iterable[Words], *, batch: int = 64, chunk: int | None = None) -> Iterator[Tagged]:
        """The same for words that are known already."""
        yield from self.in_batches(lines, self.answer, batch, chunk)

    def words(self, words: Sequence[str], text: str | None = None, line: int = 1) -> Words:
        """A sentence of words, cut to the limit that training had."""
        most = self.settings.data.max_length
        note = cut_note(len(words), "words", most)
        return Words(line, " ".join(words) if text is None else text, list(words[:most]), note)

    def read(self, given: str, line: int = 1) -> Words:
        """A line in words, which are regard's own units."""
        return self.words(split_words(given, "tokenizer"), given, line)

    def length(self, item: Words) -> int:
        """How many words a line has."""
        return len(item.words)

    def blank(self, item: Words) -> Tagged:
        """No words, no tags."""
        return Tagged(item.line, item.text, [], [], [], None)

    @inference
    def answer(self, items: list[Words]) -> list[Tagged]:
        """The tags of a batch of lines."""
        rows = self.model(*self._tensors(items)).double().softmax(-1).cpu()
        tagged = []
        for line, row in zip(items, rows, strict=True):
            real = row[: len(line.words)]
            tags = [self.tags.names[best] for best in real.argmax(-1).tolist()]
            each = [dict(zip(self.tags.names, one, strict=True)) for one in real.tolist()]
            tagged.append(Tagged(line.line, line.text, line.words, tags, each, line.note))
        return tagged

    @inference
    def view(self, text: str, language: str = "en") -> View:
        """The attention of each layer and head from each word.

        Raises:
            DataError: the text has no words.
        """
        sentence = self.read(text)
        if not sentence.words:
            raise DataError("the text is empty: there is nothing to look at")
        attended = self.model.read(*self._tensors([sentence])).attended
        [tagged] = self.answer([sentence])
        notes = [str(tagged), *([tagged.note] if tagged.note else [])]
        return heads_view(heads_of(attended, sentence.words), notes, language)

    def _tensors(self, sentences: list[Words]) -> tuple[torch.Tensor, torch.Tensor]:
        ids, lengths = pad_words([[self.features.ids(word) for word in one.words] for one in sentences])
        return ids.to(self.device), lengths.to(self.device)
