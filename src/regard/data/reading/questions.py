"""Questions about texts, whose answers stand in them: words with their places, sentences, and spans of words.

A text is kept as it stands. All positions are counted in characters (Unicode code points) of that very
text, so that `text[start:end]` is the answer, letter for letter.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from regard.data.reading.babi import Story
from regard.data.text.units import Unit, units
from regard.errors import DataError, quoted

Span = tuple[int, int]
"""Of characters: the first, and the one after the last. Of words: the first and the last."""

# To the mark that ends it, before a space or a line's end (so that 3.14 is whole); full-width marks need no space.
# Nothing that was taken is given back (++, *+): else a long row of dots would be gone through once for each of them.
_ENDED = r"[.!?…]++[\"'”’)\]]*+"
_SENTENCE = re.compile(rf"\S(?:[^\n.!?…。！？]++|{_ENDED}(?!\s|\Z))*+(?:{_ENDED}|[。！？]++[”’」』）]*+)?")
_ASKS = ("?", "？")


class GivenAnswer(NamedTuple):
    """An answer that the data give: its text, and where it begins."""

    text: str
    start: int


class Question(NamedTuple):
    """A question about a text.

    Attributes:
        text: what is read for it, as it stands.
        question: what is asked.
        answers: those that the data give; () if they say that the text has none; None if they say nothing.
        sentences: of the text, in characters.
        supports: which of the sentences the answer needs, where the data say so.
        place: where it was read, for errors.
        id: its name in the data, if it has one.
    """

    text: str
    question: str
    answers: tuple[GivenAnswer, ...] | None
    sentences: tuple[Span, ...]
    supports: tuple[int, ...] = ()
    place: str = "the text"
    id: str = ""


@lru_cache(maxsize=4096)
def words_in(text: str) -> tuple[Unit, ...]:
    """The words and marks of a text with their places; Han by the character.

    Raises:
        DataError: it holds half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text {quoted(text)} holds half of a surrogate pair at place {error.start}") from error
    return tuple(units(text))


@lru_cache(maxsize=4096)
def sentences_in(text: str) -> tuple[Span, ...]:
    """The sentences of a text, none of them blank; a line's end is a sentence's."""
    return tuple((found.start(), found.start() + len(found[0].rstrip())) for found in _SENTENCE.finditer(text))


def key_of(word: str) -> str:
    """The key by which words are matched: their letters, ignoring case."""
    return word.casefold()


def span_of(words: Sequence[Unit], start: int, end: int) -> Span | None:
    """The first and the last word that have a part in some characters; None if no word has."""
    first = bisect_right(words, start, key=lambda word: word.start + len(word.text))
    last = bisect_right(words, end - 1, key=lambda word: word.start) - 1
    return (first, last) if first <= last else None


def questions_of(story: Story, answered: bool = True) -> list[Question]:
    """The questions of a story in the form of bAbI, each about all sentences before it, one per line.

    An answer is given wherever its words stand in the text: which of these places is meant, the data do not say.

    Args:
        story: with its questions.
        answered: whether their answers are wanted.

    Raises:
        DataError: an answer stands nowhere in the text; a question has no words, or no sentence before it.
    """
    found = []
    for place, line in enumerate(story.lines):
        if not line.is_question:
            continue
        facts = [at for at, one in enumerate(story.lines[:place]) if not one.is_question]
        text = "\n".join(story.lines[at].text for at in facts)
        if not words_in(text):
            raise DataError(f"{story.place}: the question {quoted(line.text)} comes before any sentence")
        ends = [sum(len(story.lines[at].text) + 1 for at in facts[: number + 1]) - 1 for number in range(len(facts))]
        sentences = tuple((end - len(story.lines[at].text), end) for at, end in zip(facts, ends, strict=True))
        answers = None if line.answer is None or not answered else _everywhere(text, line.answer)
        if answers == ():
            raise DataError(
                f"{story.place}: the answer {quoted(str(line.answer))} to {quoted(line.text)} stands nowhere before "
                "it, and a reader that points at words (model.kind=span) cannot answer with it; "
                "take model.kind=sentences"
            )
        supports = tuple(facts.index(at) for at in line.supports)
        found.append(check_question(Question(text, line.text, answers, sentences, supports, story.place)))
    return found


def question_of(text: str, asked: str | None = None, place: str = "the text") -> Question:
    """A text as a person gives it, and what is asked: the last sentence that ends in a question mark, unless given.

    Raises:
        DataError: there are no words to read, or no question.
    """
    if asked is None:
        *before, (start, end) = sentences_in(text) or ((0, 0),)
        if not text[start:end].endswith(_ASKS):
            raise DataError(f"{place}: there is no question; end it with one, or give --question TEXT")
        text, asked = (text[: before[-1][1]] if before else ""), text[start:end]
    return check_question(Question(text, asked.strip(), None, sentences_in(text), place=place))


def check_question(question: Question) -> Question:
    """The question as it is, if it and its text have words.

    Raises:
        DataError: the text or the question has no words.
    """
    try:
        text, asked = words_in(question.text), words_in(question.question)
    except DataError as error:
        raise DataError(f"{question.place}: {error}") from error
    if not any(map(_is_word, text)):
        raise DataError(f"{question.place}: the story is empty; there is nothing to read before the question")
    if not any(map(_is_word, asked)):
        raise DataError(f"{question.place}: the question {quoted(question.question)} has no words")
    return question


def _is_word(word: Unit) -> bool:
    return any(character.isalnum() for character in word.text)


def _everywhere(text: str, answer: str) -> tuple[GivenAnswer, ...]:
    words, wanted = words_in(text), [key_of(one.text) for one in words_in(answer)]
    keys = [key_of(one.text) for one in words]
    found = []
    for first in range(len(keys) - len(wanted) + 1):
        if keys[first : first + len(wanted)] == wanted:
            last = words[first + len(wanted) - 1]
            start, end = words[first].start, last.start + len(last.text)
            found.append(GivenAnswer(text[start:end], start))
    return tuple(found)
