"""A trained classifier: texts in, a label and its probability out, in order."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from regard.data.batching import pad
from regard.data.text.lines import several
from regard.data.tokenizers.base import Tokenizer, visible
from regard.errors import DataError
from regard.models.text.bidirectional import BidirectionalTransformer
from regard.models.text.classifier import Classifier
from regard.tasks.classification.data import Known
from regard.tasks.classification.settings import ClassificationSettings
from regard.tasks.core.lines import Line, read_line
from regard.tasks.core.notes import unknown_words
from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.views.heads import heads_of, heads_view
from regard.tasks.views.past import past_matrices, past_view, past_weights
from regard.views.view import Matrix, View
from regard.vocabulary import UNKNOWN

_QUERY = {"en": "what the pooling read", "zh": "汇聚时读取的位置"}


class Verdict(NamedTuple):
    """What the model predicts for one line.

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


class ClassificationPredictor(StreamPredictor[ClassificationSettings, Known, Classifier, str, Line, Verdict]):
    """A classifier with its vocabulary and its labels.

    A line without words has no label. A line above the model's limit is cut, and its verdict says so.
    """

    settings_type = ClassificationSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Known:
        """Vocabulary and labels."""
        return Known.load(folder)

    @classmethod
    def build(cls, settings: ClassificationSettings, parts: Known) -> Classifier:
        """A classifier with fresh weights."""
        return Classifier(settings.model, len(parts.tokenizer), len(parts.labels), UNKNOWN)

    @property
    def tokenizer(self) -> Tokenizer:
        """Its vocabulary."""
        return self.parts.tokenizer

    @property
    def labels(self) -> list[str]:
        """By number."""
        return self.parts.labels

    def classify(self, texts: Sequence[str], batch: int = 64) -> list[Verdict]:
        """One verdict per text, in order; see `stream`."""
        return list(self.stream(several(texts), batch=batch))

    def read(self, given: str, line: int = 1) -> Line:
        """A line in tokens, cut to the limit that training had."""
        return read_line(self.tokenizer, given, line, self.settings.data.max_length)

    def length(self, item: Line) -> int:
        """How many tokens a line has."""
        return len(item.ids)

    def blank(self, item: Line) -> Verdict:
        """No label."""
        return Verdict(item.line, item.text, "", 0.0, dict.fromkeys(self.labels, 0.0), None)

    @inference
    def answer(self, items: list[Line]) -> list[Verdict]:
        """The verdicts of a batch of lines."""
        ids, lengths = pad([one.ids for one in items])
        chances = self.model(ids.to(self.device), lengths.to(self.device)).double().softmax(-1).cpu()
        verdicts = []
        for line, row in zip(items, chances.tolist(), strict=True):
            best = max(range(len(row)), key=row.__getitem__)
            each = dict(zip(self.labels, row, strict=True))
            verdicts.append(Verdict(line.line, line.text, self.labels[best], row[best], each, line.note))
        return verdicts

    @inference
    def view(self, text: str, language: str = "en") -> View:
        """What each word attended to, and what learned queries read, where the model has them.

        Raises:
            DataError: the text has no words.
            RegardError: the model attends to nothing.
        """
        sentence = self.read(text)
        if not sentence.ids:
            raise DataError("the text is empty: there is nothing to look at")
        model = self.model
        ids, lengths = (one.to(self.device) for one in pad([sentence.ids]))
        [verdict] = self.classify([text])
        notes = [f"{verdict.label} {verdict.probability:.3f}"]
        unknown = [token for one, token in zip(sentence.ids, sentence.tokens, strict=True) if one == UNKNOWN]
        notes += unknown_words(unknown, language) + ([sentence.note] if sentence.note else [])
        pooled = []
        if "query" in model.pools:
            weights = model.pools["query"](model.states(ids, lengths)).weights[0]
            labels = [visible(token) for token in sentence.tokens]
            rows = [str(number) for number in range(1, len(weights) + 1)]
            pooled.append(Matrix(weights, rows, labels, _QUERY[language]))
        if isinstance(model.reader, BidirectionalTransformer):
            attended = model.reader(model.embedding(ids), torch.ones_like(ids, dtype=torch.bool)).attended
            grid = heads_view(heads_of(attended, sentence.tokens), notes, language)
            return replace(grid, overview=[*pooled, *grid.overview])
        matrices = past_matrices(past_weights(model.reader, model.embedding(ids)), sentence.tokens, language)
        return past_view([*matrices, *pooled], self.settings.model.kind, notes, language)
