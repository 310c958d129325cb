"""Questions about texts as tensors, in batches of texts of similar length.

Position 0 of a text means that it does not answer; word n, counted from 0, has position n + 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from regard.data.batching import pad_words
from regard.data.chance import Chance
from regard.data.reading.questions import Question, Span, key_of, span_of, words_in
from regard.data.tagging.word_features import WordFeatures
from regard.errors import DataError

NO_ANSWER: Span = (0, 0)
"""Where the answer begins and ends that a text does not give."""


class EncodedQuestion(NamedTuple):
    """A question and its text as ids.

    Attributes:
        text: ids of the features of each word of the text.
        question: likewise of the question.
        in_question: for each word of the text, 1 if it stands in the question, too ("exact match", Chen et al. 2017).
        spans: first and last position of each given answer; none where the data give no answer.
    """

    text: list[list[int]]
    question: list[list[int]]
    in_question: list[int]
    spans: list[Span]


@dataclass(frozen=True)
class QuestionBatch:
    """Questions side by side, padded on the right.

    Attributes:
        text: ids of the features of each word, 0 where there is none.
        lengths: words of each text.
        question: ids of the questions' words.
        question_lengths: words of each question.
        in_question: whether a word of the text stands in the question.
        spans: first and last position of each given answer; the first answer again where a question has fewer.
        is_answer: which of these are answers; none of a question without a given answer.
    """

    text: Int64[Tensor, "batch words features"]
    lengths: Int64[Tensor, " batch"]
    question: Int64[Tensor, "batch question features"]
    question_lengths: Int64[Tensor, " batch"]
    in_question: Int64[Tensor, "batch words"]
    spans: Int64[Tensor, "batch given 2"]
    is_answer: Bool[Tensor, "batch given"]

    def __len__(self) -> int:
        return len(self.text)

    def to(self, device: torch.device | str) -> "QuestionBatch":
        """The same batch on another device."""
        return QuestionBatch(*(getattr(self, field.name).to(device) for field in fields(self)))

    @staticmethod
    def of(questions: list[EncodedQuestion]) -> "QuestionBatch":
        """Encoded questions side by side."""
        text, lengths = pad_words([one.text for one in questions])
        question, question_lengths = pad_words([one.question for one in questions])
        in_question = torch.zeros(text.shape[:2], dtype=torch.int64)
        given = max(1, *(len(one.spans) for one in questions))
        spans = torch.zeros(len(questions), given, 2, dtype=torch.int64)
        is_answer = torch.zeros(len(questions), given, dtype=torch.bool)
        for row, one in enumerate(questions):
            in_question[row, : len(one.in_question)] = torch.tensor(one.in_question)
            if one.spans:
                spans[row] = torch.tensor([*one.spans, *one.spans[:1] * (given - len(one.spans))])
                is_answer[row, : len(one.spans)] = True
        return QuestionBatch(text, lengths, question, question_lengths, in_question, spans, is_answer)


MAX_WORDS_TOGETHER = 8_000
"""Words of texts that are read together in use, padding counted: memory and time grow with the square of a text."""

MAX_WORDS = 10_000
"""Words of a text that can be read at most."""


def read_length(question: Question, most: int = MAX_WORDS) -> int:
    """The words of a question's text.

    Raises:
        DataError: there are more than can be read; the message names the question.
    """
    length = len(words_in(question.text))
    if length > most:
        raise DataError(
            f"{question.place}: the text has {length} words, and at most {most} can be read here; give the part that "
            "matters"
        )
    return length


def batches_in_use(lengths: Sequence[int], batch: int | None = None) -> list[list[int]]:
    """Batches of texts for use, those of the most words first; a long one by itself.

    Args:
        lengths: words of each.
        batch: texts of a batch at most, where that is limited.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batches = []
    while order:
        fit = max(1, MAX_WORDS_TOGETHER // max(1, lengths[order[-1]]))
        count = fit if batch is None else min(fit, batch)
        batches.append(order[-count:])
        del order[-count:]
    return batches


class QuestionEncoder:
    """Questions by the ids of their words.

    Args:
        features: of words.
        longest: words of an answer at most; longer ones are no spans.
    """

    def __init__(self, features: WordFeatures, longest: int) -> None:
        self.longest = longest
        self._ids = lru_cache(maxsize=100_000)(features.ids)

    def __call__(self, question: Question) -> EncodedQuestion:
        """A question and its text by the ids of their words."""
        text, question_words = words_in(question.text), words_in(question.question)
        keys = {key_of(word.text) for word in question_words}
        return EncodedQuestion(
            [self._ids(word.text) for word in text],
            [self._ids(word.text) for word in question_words],
            [int(key_of(word.text) in keys) for word in text],
            self.spans(question),
        )

    def spans(self, question: Question) -> list[Span]:
        """Positions of the given answers that are not too long, each once, in their order; see `NO_ANSWER`."""
        if question.answers is None:
            return []
        if not question.answers:
            return [NO_ANSWER]
        words = words_in(question.text)
        found = [span_of(words, one.start, one.start + len(one.text)) for one in question.answers]
        short = [(span[0] + 1, span[1] + 1) for span in found if span and span[1] - span[0] < self.longest]
        return list(dict.fromkeys(short))


class QuestionBatches:
    """Batches of questions by number; follows `training.state.Batches`.

    Args:
        question: `number -> Encoded`; for synthetic stories any number, so that each epoch has new ones.
        count: questions of an epoch.
        batch: questions read together.
        seed: with the number of the epoch it decides the order.
        lengths: words of each text, by which questions are put together; None: each epoch has new ones, in the order
            of their numbers.
    """

    def __init__(
        self, question: Callable[[int], EncodedQuestion], count: int, batch: int, seed: int, lengths: list[int] | None
    ) -> None:
        self.question, self.count, self.batch, self.seed, self.lengths = question, count, batch, seed, lengths

    def plan(self, epoch: int) -> list[list[int]]:
        """Which questions make which batch in an epoch; each comes once."""
        chance = Chance("questions", self.seed, epoch)
        if self.lengths is None:
            order = list(range(epoch * self.count, (epoch + 1) * self.count))
        else:
            order = sorted(chance.shuffled(range(self.count)), key=self.lengths.__getitem__)
        batches = [order[at : at + self.batch] for at in range(0, self.count, self.batch)]
        return batches if self.lengths is None else chance.shuffled(batches)

    def load(self, indices: list[int]) -> QuestionBatch:
        """The tensors of some questions, in this order."""
        return QuestionBatch.of([self.question(number) for number in indices])
