"""Stories as steps of words: a vocabulary of words and answers, and batches.

A sentence is a step, a question is a step, and after each question come empty steps in which the reader may think; the
last of them is where it answers. Steps after the end of a story change nothing before them.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.chance import Chance
from regard.data.reading.babi import Story, StoryLine
from regard.errors import DataError, RunError, nearest, quoted
from regard.files import write_json
from regard.vocabulary import PADDING, UNKNOWN

KINDS = 4
EMPTY, FACT, QUESTION, THINKING = range(KINDS)
"""What a step is."""

IGNORED = -100
"""The target of steps that do not answer, or whose answer is not given: no loss there."""

_WORDS = re.compile(r"\w+(?:['’-]\w+)*")
_FILE = "stories.json"


def story_words(text: str) -> list[str]:
    """The words of a sentence in lower case, without marks."""
    return _WORDS.findall(text.lower())


@dataclass(frozen=True)
class StoryVocabulary:
    """The words that are read, by id, and the answers that can be given, by number."""

    words: tuple[str, ...]
    answers: tuple[str, ...]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, UNKNOWN + 1)}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {answer: number for number, answer in enumerate(self.answers)}

    def __len__(self) -> int:
        return UNKNOWN + 1 + len(self.words)

    @staticmethod
    def of(stories: Iterable[Story]) -> "StoryVocabulary":
        """All words and answers of some stories, in alphabetical order."""
        words: set[str] = set()
        answers: set[str] = set()
        for story in stories:
            for line in story.lines:
                words.update(story_words(line.text))
                answers.update([line.answer] if line.answer is not None else [])
        return StoryVocabulary(tuple(sorted(words)), tuple(sorted(answers)))

    def ids(self, text: str, limit: int) -> list[int]:
        """The ids of a sentence's first words; one that training did not have is unknown."""
        return [self._ids.get(word, UNKNOWN) for word in story_words(text)[:limit]]

    def unknown(self, text: str) -> list[str]:
        """The words of a sentence that training did not have."""
        return [word for word in story_words(text) if word not in self._ids]

    def number(self, answer: str, place: str) -> int:
        """The number of an answer.

        Raises:
            DataError: training never gave it.
        """
        if answer not in self._numbers:
            near = nearest(answer, self._numbers)
            raise DataError(f"{place}: the answer {quoted(answer)} does not occur in training.{near}")
        return self._numbers[answer]

    def save(self, folder: Path) -> None:
        """Write `stories.json` into a folder."""
        write_json(folder / _FILE, {"words": self.words, "answers": self.answers})

    @staticmethod
    def load(folder: Path) -> "StoryVocabulary":
        """Read what `save` wrote.

        Raises:
            RunError: it is missing or damaged.
        """
        path = folder / _FILE
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            sides = [kept[name] for name in ("words", "answers")]
            if not all(isinstance(side, list) and all(isinstance(one, str) for one in side) for side in sides):
                raise ValueError("two lists of words are expected")
        except FileNotFoundError as error:
            raise RunError(f"{path} is missing: the run does not say which words it knows") from error
        except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise RunError(f"{path} is damaged: {error}") from error
        return StoryVocabulary(tuple(sides[0]), tuple(sides[1]))


class EncodedStory(NamedTuple):
    """One story as it is read.

    Attributes:
        words: ids of each step's words.
        kinds: what each step is.
        lines: the line of the story that each step belongs to.
        answers: the number of the answer at steps that answer a question, `IGNORED` where it is not given.
    """

    words: list[list[int]]
    kinds: list[int]
    lines: list[int]
    answers: dict[int, int]


def encode_story(story: Story, vocabulary: StoryVocabulary, thinking: int, max_words: int) -> EncodedStory:
    """A story's steps: one per line, and after a question as many thinking steps as the reader has."""
    steps = EncodedStory([], [], [], {})
    for place, line in enumerate(story.lines):
        _append(steps, vocabulary.ids(line.text, max_words), QUESTION if line.is_question else FACT, place)
        if line.is_question:
            for _ in range(thinking):
                _append(steps, [], THINKING, place)
            answered = line.answer is not None
            steps.answers[len(steps.kinds) - 1] = _answer_number(vocabulary, line, story.place) if answered else IGNORED
    return steps


def _append(steps: EncodedStory, words: list[int], kind: int, line: int) -> None:
    steps.words.append(words)
    steps.kinds.append(kind)
    steps.lines.append(line)


def _answer_number(vocabulary: StoryVocabulary, line: StoryLine, place: str) -> int:
    assert line.answer is not None
    return vocabulary.number(line.answer, place)


@dataclass(frozen=True)
class StoryBatch:
    """Stories side by side.

    Attributes:
        words: ids, 0 after a step's words.
        kinds: what each step is, `EMPTY` after a story's end.
        answers: the right answer's number at steps that answer, else `IGNORED`.
    """

    words: Int64[Tensor, "batch time words"]
    kinds: Int64[Tensor, "batch time"]
    answers: Int64[Tensor, "batch time"]

    def to(self, device: torch.device | str) -> "StoryBatch":
        """The same batch on another device."""
        return replace(self, words=self.words.to(device), kinds=self.kinds.to(device), answers=self.answers.to(device))

    @staticmethod
    def of(stories: Sequence[EncodedStory]) -> "StoryBatch":
        """Stories of any lengths side by side."""
        time = max(len(story.kinds) for story in stories)
        width = max(1, *(len(words) for story in stories for words in story.words))
        none: list[int] = []
        words = [
            [[*step, *[PADDING] * (width - len(step))] for step in [*story.words, *[none] * (time - len(story.words))]]
            for story in stories
        ]
        kinds = [[*story.kinds, *[EMPTY] * (time - len(story.kinds))] for story in stories]
        answers = [[story.answers.get(step, IGNORED) for step in range(time)] for story in stories]
        return StoryBatch(torch.tensor(words), torch.tensor(kinds), torch.tensor(answers))


class StoryBatches:
    """Batches of stories by number; follows `training.state.Batches`.

    Args:
        story: `number -> Steps`; for synthetic stories any number, so that each epoch has new ones.
        count: stories of an epoch.
        batch: stories read together.
        seed: with the number of the epoch it decides the order of stories that come again.
        new: whether each epoch has new ones.
    """

    def __init__(self, story: Callable[[int], EncodedStory], count: int, batch: int, seed: int, new: bool) -> None:
        self.story, self.count, self.batch, self.seed, self.new = story, count, batch, seed, new

    def plan(self, epoch: int) -> list[list[int]]:
        """The numbers of the stories in each batch of an epoch."""
        if self.new:
            order = list(range(epoch * self.count, (epoch + 1) * self.count))
        else:
            order = Chance("stories", self.seed, epoch).shuffled(range(self.count))
        return [order[at : at + self.batch] for at in range(0, self.count, self.batch)]

    def load(self, indices: list[int]) -> StoryBatch:
        """The stories of these numbers as one batch."""
        return StoryBatch.of([self.story(number) for number in indices])
