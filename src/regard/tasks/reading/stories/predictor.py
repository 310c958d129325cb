"""A trained reader of stories: stories with questions in, answers out, and which sentences were read for them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from regard.attention.record import record
from regard.data.reading.babi import Story, StoryLine
from regard.data.reading.story_batches import KINDS, StoryBatch, StoryVocabulary, encode_story, story_words
from regard.errors import DataError, a_few, quoted
from regard.models.reading.story_reader import StoryReader
from regard.tasks.core.predictor import Predictor, inference
from regard.tasks.reading.settings import ReadingSettings

_BATCH = 50
_SENTENCE = re.compile(r"[^.!?。！？\n]*[.!?。！？]+|[^.!?。！？\n]+")
_NUMBERED = re.compile(r"^\s*\d+\s+")


class HeadRead(NamedTuple):
    """How much of each sentence one head read at one step.

    Attributes:
        head: its name.
        step: 0 at the question itself, then the thinking steps.
        weights: by line of the story; questions, and lines that come later, have 0.
    """

    head: str
    step: int
    weights: np.ndarray


class Answered(NamedTuple):
    """What the model answered to one question.

    Attributes:
        story: the story.
        line: the question's place in it, from 0.
        answer: the likeliest.
        probability: of that answer.
        probabilities: of each answer.
        looks: weights of the heads; none if the model has no heads that read and write.
        notes: what was done to the story's text up to here.
    """

    story: Story
    line: int
    answer: str
    probability: float
    probabilities: dict[str, float]
    looks: list[HeadRead]
    notes: list[str]

    @property
    def question(self) -> StoryLine:
        """What was asked."""
        return self.story.lines[self.line]

    @property
    def facts(self) -> list[int]:
        """The places of the sentences before the question."""
        return [place for place, line in enumerate(self.story.lines[: self.line]) if not line.is_question]

    @property
    def read(self) -> np.ndarray | None:
        """How much of each sentence was read, by all heads from the question to the answer; None without heads."""
        total: np.ndarray | None = sum(look.weights for look in self.looks) if self.looks else None  # type: ignore[assignment]
        return total

    @property
    def most_read(self) -> int | None:
        """The place of the sentence that was read most; None without heads, or if nothing was read."""
        read, facts = self.read, self.facts
        if read is None or not facts or not read[facts].any():
            return None
        return facts[int(read[facts].argmax())]


class StoriesPredictor(Predictor[ReadingSettings, StoryVocabulary, StoryReader]):
    """A reader of stories with its words and answers."""

    settings_type = ReadingSettings

    @classmethod
    def load_parts(cls, folder: Path) -> StoryVocabulary:
        """Its words and answers."""
        return StoryVocabulary.load(folder)

    @classmethod
    def build(cls, settings: ReadingSettings, parts: StoryVocabulary) -> StoryReader:
        """A reader with fresh weights."""
        return StoryReader(settings.sentences, len(parts), KINDS, len(parts.answers))

    @property
    def vocabulary(self) -> StoryVocabulary:
        """Its words and answers."""
        return self.parts

    def answer(self, stories: Sequence[Story]) -> list[Answered]:
        """Answer every question of some stories, in order.

        Raises:
            DataError: a question has no words, or no sentence before it.
        """
        for story in stories:
            _check(story)
        order = sorted(range(len(stories)), key=lambda at: len(stories[at].lines))
        answered: dict[int, list[Answered]] = {}
        for at in range(0, len(order), _BATCH):
            some = order[at : at + _BATCH]
            answered.update(zip(some, self._together([stories[one] for one in some]), strict=True))
        return [one for at in range(len(stories)) for one in answered[at]]

    @inference
    def _together(self, stories: list[Story]) -> list[list[Answered]]:
        reading = self.vocabulary, self.settings.sentences.thinking, self.settings.data.max_words
        # The story's own answers are not used here, and may not be among the model's.
        steps = [encode_story(_unanswered(story), *reading) for story in stories]
        batch = StoryBatch.of(steps).to(self.device)
        with record(self.model.machine, lambda name, module: name.startswith("heads.")) as seen:
            logits = self.model(batch.words, batch.kinds)
        chances = logits.softmax(-1).cpu()
        heads = {name.removeprefix("heads."): seen.weights(name).cpu() for name in seen}
        found = []
        for row, (story, read) in enumerate(zip(stories, steps, strict=True)):
            left = _left({name: weights[row, : len(read.kinds)] for name, weights in heads.items()})
            found.append(
                [self._answered(story, read.lines, end, chances[row, end], left) for end in sorted(read.answers)]
            )
        return found

    def _answered(
        self, story: Story, lines: list[int], end: int, chances: Tensor, left: dict[str, np.ndarray]
    ) -> Answered:
        """The answer that a story's question had at a step."""
        line = lines[end]
        looks = []
        facts = np.array([not one.is_question for one in story.lines])
        for name, table in left.items():
            for step in range(end - self.settings.sentences.thinking, end + 1):
                weights = np.zeros(len(story.lines))
                np.add.at(weights, lines, table[step])
                looks.append(HeadRead(name, step - end + self.settings.sentences.thinking, weights * facts))
        best = int(chances.argmax())
        answers = self.vocabulary.answers
        probabilities = dict(zip(answers, chances.tolist(), strict=True))
        return Answered(
            story,
            line,
            answers[best],
            probabilities[answers[best]],
            probabilities,
            looks,
            self.notes(story.lines[: line + 1]),
        )

    def notes(self, lines: Iterable[StoryLine]) -> list[str]:
        """What is done to the text of some lines: words that are unknown, sentences that are cut."""
        notes, limit, texts = [], self.settings.data.max_words, [one.text for one in lines]
        unknown = sorted({word for text in texts for word in self.vocabulary.unknown(text)})
        if unknown:
            notes.append(f"the model has never read {a_few(unknown)}")
        if cut := sum(len(story_words(text)) > limit for text in texts):
            notes.append(f"{cut} sentences have more than {limit} words and were cut")
        return notes


def story_of(text: str, question: str | None = None, place: str = "the text") -> Story:
    """A story as a person writes it: sentences with their marks, or one per line; those that end in ? are questions.

    Args:
        text: the story; lines may begin with their numbers, as in bAbI, and may have answers, which are not read.
        question: to be asked at the end, with or without its mark.
        place: what errors call it.

    Raises:
        DataError: there is no sentence, or no question.
    """
    lines = []
    for line in text.splitlines():
        said, *answer = _NUMBERED.sub("", line).split("\t")
        sentences = [said] if answer else _SENTENCE.findall(said)
        lines += [
            StoryLine(one.strip(), bool(answer) or one.rstrip().endswith(("?", "？")))
            for one in sentences
            if story_words(one)
        ]
    if not any(not line.is_question for line in lines):
        raise DataError(f"{place}: the story is empty; there is no sentence to read before the question")
    if question is not None:
        if not story_words(question):
            raise DataError(f"{place}: the question {quoted(question)} has no words")
        lines.append(StoryLine(question.strip(), True))
    if not any(line.is_question for line in lines):
        raise DataError(f"{place}: there is no question; end it with one, or give --question TEXT")
    return Story(tuple(lines), place)


def _check(story: Story) -> None:
    for place, line in enumerate(story.lines):
        if line.is_question and not story_words(line.text):
            raise DataError(f"{story.place}: the question {quoted(line.text)} has no words")
        if line.is_question and all(one.is_question for one in story.lines[:place]):
            raise DataError(f"{story.place}: the question {quoted(line.text)} comes before any sentence")


def _unanswered(story: Story) -> Story:
    return story._replace(lines=tuple(line._replace(answer=None) for line in story.lines))


def _left(heads: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """For each reading head, `(steps, steps)`: how much of what was written at a step it read at a later one.

    `Σ_n w^r_t(n) w^w_s(n) Π_{s<i≤t} (1 − w^w_i(n))`: what a slot was given, times what later writes left of it, times
    how much of the slot is read. Of several writing heads, the sum.
    """
    writes = [weights.double().numpy() for name, weights in heads.items() if name.startswith("write")]
    reads = {name: weights.double().numpy() for name, weights in heads.items() if name.startswith("read")}
    if not writes or not reads:
        return {}
    write = sum(writes)
    assert isinstance(write, np.ndarray)
    left = np.zeros((len(write), *write.shape[1:]))
    tables = {name: np.zeros((len(write), len(write))) for name in reads}
    for now in range(len(write)):
        left[:now] *= 1 - np.minimum(write[now], 1)
        left[now] = write[now]
        for name, read in reads.items():
            tables[name][now] = left @ read[now]
    return tables
