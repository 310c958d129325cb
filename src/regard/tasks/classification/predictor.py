"""A trained classifier: texts in, a label and its probability out, in order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from regard.data.batching import pad
from regard.data.text.lines import several
from regard.data.tokenizers.base import Tokenizer, visible
from regard.data.tokenizers.factory import load_tokenizer
from regard.decoding.batches import in_order
from regard.errors import DataError
from regard.models.text.bidirectional import BidirectionalTransformer
from regard.models.text.classifier import Classifier
from regard.tasks.classification.data import load_labels
from regard.tasks.classification.settings import ClassificationSettings
from regard.tasks.core.config import check
from regard.tasks.core.notes import unknown_words
from regard.tasks.core.runs import open_run
from regard.tasks.views.heads import heads_of, heads_view
from regard.tasks.views.past import looks_back, past_matrices, past_view
from regard.training.run.checkpoint import load_weights
from regard.views.view import Matrix, View
from regard.vocabulary import UNKNOWN

_QUERY = {"en": "what the pooling read", "zh": "汇聚时读取的位置"}


class Sentence(NamedTuple):
    """One line as the model reads it.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        ids, pieces: cut to the model's limit.
        note: what was done to it, or None.
    """

    line: int
    text: str
    ids: list[int]
    pieces: list[str]
    note: str | None


class Verdict(NamedTuple):
    """What the model says of one line.

    Attributes:
        line: its number, from 1.
        text: as it was given.
        label: the likeliest; "" for a line without words.
        probability: of that label; 0 for a line without words.
        probabilities: of each label.
        note: what was done to the line, or None.
    """

    line: int
    text: str
    label: str
    probability: float
    probabilities: dict[str, float]
    note: str | None


class SentenceClassifier:
    """A classifier with its vocabulary and its labels.

    Args:
        model: in eval mode from here on.
        tokenizer: its vocabulary.
        labels: by number.
        settings: those of its run.
    """

    def __init__(
        self, model: Classifier, tokenizer: Tokenizer, labels: Sequence[str], settings: ClassificationSettings
    ) -> None:
        model.eval()
        self.model, self.tokenizer, self.labels, self.settings = model, tokenizer, list(labels), settings

    def classify(self, texts: Sequence[str], batch: int = 64) -> list[Verdict]:
        """One verdict a text, in order; see `stream`."""
        return list(self.stream(several(texts), batch))

    def stream(self, lines: Iterable[str], batch: int = 64, chunk: int | None = None) -> Iterator[Verdict]:
        """One verdict a line, in order, while the lines are being read: 16 batches at a time are in memory.

        A line without words has no label. A line above the model's limit is cut, and its verdict says so.

        Args:
            lines: texts without line breaks.
            batch: sentences computed together; changes a probability by no more than float32 rounds.
            chunk: lines read before the first verdict comes, 16 batches by default.

        Raises:
            DataError: a text is not valid Unicode.
        """
        sentences = (self.read(text, line) for line, text in enumerate(lines, start=1))
        yield from in_order(sentences, lambda one: len(one.ids), batch, self._judge, empty=self._blank, chunk=chunk)

    def read(self, text: str, line: int = 1) -> Sentence:
        """A line in pieces, cut to the limit that training had."""
        encoded, most = self.tokenizer.encode(text), self.settings.data.max_length
        count, note = len(encoded.ids), None
        if count > most:
            note = f"{count} pieces are more than the model's {most}; the line is cut after {most}"
        return Sentence(line, text, encoded.ids[:most], encoded.tokens[:most], note)

    @torch.no_grad()
    def view(self, text: str, language: str = "en") -> View:
        """What each word looked at, and what learned queries read, where the model has them.

        Raises:
            DataError: the text has no words.
            RegardError: the model attends to nothing.
        """
        sentence = self.read(text)
        if not sentence.ids:
            raise DataError("the text is empty: there is nothing to look at")
        model = self.model
        ids, lengths = (one.to(self._device) for one in pad([sentence.ids]))
        [verdict] = self.classify([text])
        notes = [f"{verdict.label} {verdict.probability:.3f}"]
        unknown = [piece for one, piece in zip(sentence.ids, sentence.pieces, strict=True) if one == UNKNOWN]
        notes += unknown_words(unknown, language) + ([sentence.note] if sentence.note else [])
        pooled = []
        if "query" in model.pools:
            weights = model.pools["query"](model.states(ids, lengths)).weights[0]
            labels = [visible(piece) for piece in sentence.pieces]
            rows = [str(number) for number in range(1, len(weights) + 1)]
            pooled.append(Matrix(weights, rows, labels, _QUERY[language]))
        if isinstance(model.reader, BidirectionalTransformer):
            attended = model.reader(model.embedding(ids), torch.ones_like(ids, dtype=torch.bool)).attended
            grid = heads_view(heads_of(attended, sentence.pieces), notes, language)
            return replace(grid, overview=[*pooled, *grid.overview])
        matrices = past_matrices(looks_back(model.reader, model.embedding(ids)), sentence.pieces, language)
        return past_view([*matrices, *pooled], self.settings.model.kind, notes, language)

    @torch.no_grad()
    def _judge(self, sentences: list[Sentence]) -> list[Verdict]:
        self.model.eval()
        ids, lengths = pad([one.ids for one in sentences])
        told = self.model(ids.to(self._device), lengths.to(self._device)).double().softmax(-1).cpu()
        verdicts = []
        for sentence, row in zip(sentences, told.tolist(), strict=True):
            best = max(range(len(row)), key=row.__getitem__)
            each = dict(zip(self.labels, row, strict=True))
            verdicts.append(Verdict(sentence.line, sentence.text, self.labels[best], row[best], each, sentence.note))
        return verdicts

    def _blank(self, sentence: Sentence) -> Verdict:
        return Verdict(sentence.line, sentence.text, "", 0.0, dict.fromkeys(self.labels, 0.0), None)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def load_classifier(folder: str | Path) -> SentenceClassifier:
    """The classifier of a run folder, with its best weights.

    Raises:
        RunError: there is no run, or no weights yet, or they are damaged.
        ConfigError: the run's settings cannot be used.
    """
    run = open_run(folder)
    settings = check(ClassificationSettings, run.read_config())
    tokenizer, labels = load_tokenizer(run.tokenizers), load_labels(run.tokenizers)
    model = Classifier(settings.model, len(tokenizer), len(labels), UNKNOWN)
    load_weights(model, run.weights)
    return SentenceClassifier(model, tokenizer, labels, settings)
