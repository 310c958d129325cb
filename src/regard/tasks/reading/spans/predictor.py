"""A trained reader that points: questions about texts in, the words of the text that answer them out."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from regard.attention.record import record
from regard.data.reading.question_batches import QuestionBatch, QuestionEncoder, batches_in_use, read_length
from regard.data.reading.questions import Question, Span, words_in
from regard.errors import a_few
from regard.models.reading.span_reader import NOTHING, SpanReader, point
from regard.tasks.core.predictor import Predictor, inference
from regard.tasks.reading.settings import ReadingSettings
from regard.tasks.reading.spans.data import Known
from regard.vocabulary import UNKNOWN

MOST_SHOWN = 3_000
"""Words of a text whose weights are kept."""


class Found(NamedTuple):
    """What the model found for one question.

    Attributes:
        question: the question.
        words: first and last word of the answer, from 0; None if the text does not answer.
        span: the answer's characters: the first, and the one after the last; None likewise.
        text: the answer as it stands in the text; "" if it does not answer.
        probability: of that span.
        nothing: the probability that the text does not answer; None if the model cannot predict this.
        weights: of the pointer to the answer's first word, one for each word of the text.
        notes: what a reader should know.
    """

    question: Question
    words: Span | None
    span: Span | None
    text: str
    probability: float
    nothing: float | None
    weights: np.ndarray
    notes: list[str]

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Weights of words, summed by sentence."""
        starts = np.array([word.start for word in words_in(self.question.text)])
        return np.array([weights[(starts >= start) & (starts < end)].sum() for start, end in self.question.sentences])

    def around(self, most: int = 40) -> tuple[str, str]:
        """The characters before and after the answer, `most` of each, in one line; … where there are more."""
        start, end = self.span or (0, 0)
        text, first, last = self.question.text, max(0, start - most), end + most
        before, after = (re.sub(r"\s", " ", one) for one in (text[first:start], text[end:last]))
        return ("…" if first else "") + before, after + ("…" if last < len(text) else "")

    @property
    def most_read(self) -> int | None:
        """The sentence of most weight of that pointer; None if no word has any."""
        each = self.sums(self.weights)
        return int(each.argmax()) if each.any() else None


class SpanAttention(NamedTuple):
    """The attention of a model while it read one text.

    Attributes:
        found: the answer.
        asked: the weights of each word of the text over the words of the question, in the last round.
        back: likewise over the words of the text, the mean of the heads.
        ends: the weights of the pointer to the last word, after the chosen first one.
    """

    found: Found
    asked: np.ndarray
    back: np.ndarray
    ends: np.ndarray


class SpansPredictor(Predictor[ReadingSettings, Known, SpanReader]):
    """A reader that points, with what it knows of words."""

    settings_type = ReadingSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Known:
        """Its words, and whether it may predict that there is no answer."""
        return Known.load(folder)

    @classmethod
    def build(cls, settings: ReadingSettings, parts: Known) -> SpanReader:
        """A reader with fresh weights."""
        return SpanReader(settings.span, len(parts.features), UNKNOWN, parts.nothing)

    @property
    def known(self) -> Known:
        """Its words, and whether it may predict that there is no answer."""
        return self.parts

    @cached_property
    def encode(self) -> QuestionEncoder:
        """Questions as the model reads them."""
        return QuestionEncoder(self.known.features, self.model.settings.longest)

    def answer(self, questions: Sequence[Question]) -> list[Found]:
        """Answer some questions, in order; how many are read together changes no answer.

        Raises:
            DataError: a text is too long to be read.
        """
        found: dict[int, Found] = {}
        # A text that is too long fails before anything is computed.
        for some in batches_in_use([read_length(one) for one in questions]):
            found.update(zip(some, self._together([questions[at] for at in some]), strict=True))
        return [found[at] for at in range(len(questions))]

    @inference
    def attention(self, question: Question) -> SpanAttention:
        """Answer one question, with the attention weights of the model."""
        read_length(question, MOST_SHOWN)
        with record(self.model) as seen:
            [found] = self._together([question])
            last = f"rounds.{len(self.model.rounds) - 1}"
            asked, back = seen.weights(f"{last}.ask")[0], seen.weights(f"{last}.back")[0].mean(0)
            batch = self._batch([question])
            first = torch.tensor([[NOTHING if found.words is None else found.words[0] + 1]], device=batch.text.device)
            ends = self.model.ends(self.model.read(batch), first).weights[0, 0, 1:]
        return SpanAttention(found, *(one.double().cpu().numpy() for one in (asked, back, ends)))

    def _batch(self, questions: list[Question]) -> QuestionBatch:
        return QuestionBatch.of([self.encode(one._replace(answers=None)) for one in questions]).to(self.device)

    @inference
    def _together(self, questions: list[Question]) -> list[Found]:
        pointed = point(self.model, self.model.read(self._batch(questions)))
        numbers = (pointed.first, pointed.last, pointed.log_probability.double().exp(), pointed.nothing)
        rows = zip(questions, *(one.tolist() for one in numbers), pointed.starts.double().cpu().numpy(), strict=True)
        return [self._found(*row) for row in rows]

    def _found(
        self, question: Question, first: int, last: int, probability: float, nothing: float, starts: np.ndarray
    ) -> Found:
        read = words_in(question.text)
        words = span = None
        if first != NOTHING:
            words = (first - 1, last - 1)
            span = (read[words[0]].start, read[words[1]].start + len(read[words[1]].text))
        return Found(
            question,
            words,
            span,
            question.text[slice(*span)] if span else "",
            probability,
            nothing if self.known.nothing else None,
            starts[1 : len(read) + 1],
            self._notes(question),
        )

    def unread(self, question: Question) -> list[str]:
        """The words of a question that training did not have."""
        return [word.text for word in words_in(question.question) if not self.known.features.knows(word.text)]

    def is_longer(self, question: Question) -> bool:
        """Whether a text is longer than any of the training may have been."""
        return len(words_in(question.text)) > self.settings.data.longest_text

    def noted(self, questions: Sequence[Question]) -> list[str]:
        """What a reader should know of many answers: each kind of note once, with how often."""
        unread, longer = sum(bool(self.unread(one)) for one in questions), sum(map(self.is_longer, questions))
        notes = []
        if unread:
            notes.append(f"{unread} of {len(questions)} questions have words that the model has never read")
        if longer:
            notes.append(f"{longer} of {len(questions)} texts are longer than any of the training; all were read whole")
        return notes

    def _notes(self, question: Question) -> list[str]:
        notes = []
        if unread := self.unread(question):
            notes.append(f"the question has words that the model has never read: {a_few(unread)}")
        if self.is_longer(question):
            notes.append(
                f"the text has {len(words_in(question.text))} words, and training had none of more than "
                f"{self.settings.data.longest_text}; all of them were read"
            )
        return notes
