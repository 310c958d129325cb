"""Stories with questions in the form of bAbI (Weston et al. 2015, arXiv 1502.05698).

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary? <tab> bathroom <tab> 1

A line begins with its number in the story; number 1 begins a new one. A line with tabs is a question, its answer, and
the numbers of the facts that the answer needs.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.text.lines import iterate_lines
from regard.errors import DataError, quoted

_FORM = "a line is `number sentence`, or `number question<TAB>answer<TAB>numbers of facts`"


class StoryLine(NamedTuple):
    """One line of a story.

    Attributes:
        text: a sentence, or a question.
        is_question: whether it is one; else it is a sentence.
        answer: of a question, where the data give it.
        supports: the lines of the story, from 0, with the facts that the answer needs; none where they are not given.
    """

    text: str
    is_question: bool = False
    answer: str | None = None
    supports: tuple[int, ...] = ()


class Story(NamedTuple):
    """Sentences and questions in order, and the place where they were read."""

    lines: tuple[StoryLine, ...]
    place: str


def read_stories(path: str | Path, answered: bool = True) -> list[Story]:
    """All stories of a file, plain, gzipped or in a zip archive.

    Args:
        path: the file.
        answered: whether every question must have its answer.

    Raises:
        DataError: a line is not in the form; it names file and line.
    """
    return list(parse_stories(iterate_lines(path), str(path), answered))


def parse_stories(lines: Iterable[str], origin: str, answered: bool = True) -> Iterator[Story]:
    """The stories of some lines; `origin` is what errors call them. Blank lines are left out.

    Raises:
        DataError: a line is not in the form, or there is no story to learn from; where answers are not expected, no
            line in is no story out.
    """
    story: list[StoryLine] = []
    begun = ""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{origin}, line {number}"
        expected, found = len(story) + 1, re.match(r"\s*(\d{1,9})\s+(\S.*)", line)
        if not found:
            raise DataError(f"{place}: {quoted(line)} does not begin with its number and a sentence; {_FORM}")
        given = int(found[1])
        if given == 1 and story:
            yield Story(tuple(story), begun)
            story, expected = [], 1
        if given != expected:
            raise DataError(
                f"{place}: it has the number {given}; expected {expected}" + (", or 1 for a new story" if story else "")
            )
        if not story:
            begun = place
        story.append(_line(found[2], story, place, answered))
    if story:
        yield Story(tuple(story), begun)
    elif answered:
        raise DataError(f"{origin}: there is no story in it; {_FORM}")


def _line(text: str, before: list[StoryLine], place: str, answered: bool) -> StoryLine:
    first, *rest = (part.strip() for part in text.split("\t"))
    if not rest:
        is_question = first.endswith("?")
        if is_question and answered:
            raise DataError(f"{place}: the question {quoted(first)} has no answer; {_FORM}")
        return StoryLine(first, is_question)
    if len(rest) > 2 or not first or not rest[0]:
        raise DataError(f"{place}: {len(rest) + 1} columns, of which {quoted(text)}; {_FORM}")
    places = []
    for word in rest[1].split() if len(rest) == 2 else []:
        if not (word.isascii() and word.isdigit()) or not 1 <= int(word[:10]) <= len(before):
            raise DataError(f"{place}: the fact {quoted(word)} is no number of an earlier line, 1 to {len(before)}")
        if before[int(word) - 1].is_question:
            raise DataError(f"{place}: the fact {word} is a question; a fact is a sentence of the story")
        places.append(int(word) - 1)
    return StoryLine(first, True, rest[0], tuple(places))
