"""Questions in the form of SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250; 2.0: 2018, arXiv 1806.03822), one JSON file.

    {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [
        {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}], "is_impossible": false}]}]}]}

`answer_start` counts characters (Unicode code points) of the context from 0. A question may have several answers, which
are all right. In version 2.0 `is_impossible` says that the context does not answer it; then there are no answers: an
empty list, null, or no such field.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.reading.questions import GivenAnswer, Question, check_question, sentences_in
from regard.data.text.lines import iterate_lines
from regard.errors import DataError, nearest, quoted

_KINDS = {dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "true or false"}


def read_squad(path: str | Path, answered: bool = True) -> list[list[Question]]:
    """The questions of a file, plain, gzipped or in a zip archive: a list for each context that has any.

    Args:
        path: the file.
        answered: whether every question must have an answer, or be marked as impossible; else answers are ignored, and
            a file without a question, or without anything, has none to answer.

    Raises:
        DataError: the file is not in the form; it names file, article and question.
    """
    # Line by line: JSON has no line breaks within a string, so those of the file are not part of any text.
    text = "\n".join(iterate_lines(path))
    if not answered and not text.strip():
        return []
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: this is not JSON ({error}); questions in the form of SQuAD are expected") from error
    if isinstance(tree, dict) and "data" not in tree:
        raise DataError(f"{path}: there is no field 'data'; {{\"data\": [articles]}} is expected, the form of SQuAD")
    seen: set[str] = set()
    contexts = [list(one) for one in _contexts(tree, str(path), answered, seen)]
    found = [one for one in contexts if one]
    if answered and not found:
        raise DataError(f"{path}: there is no question in it")
    return found


def _contexts(tree: Any, origin: str, answered: bool, seen: set[str]) -> Iterator[Iterator[Question]]:
    for number, article in enumerate(_field(_is(tree, dict, origin), "data", list, origin), start=1):
        title = article.get("title") if isinstance(article, dict) else None
        place = f"{origin}, article {quoted(str(title))}" if title else f"{origin}, article {number}"
        for count, paragraph in enumerate(_field(_is(article, dict, place), "paragraphs", list, place), start=1):
            inside = f"{place}, paragraph {count}"
            context = _field(_is(paragraph, dict, inside), "context", str, inside)
            yield _questions(context, _field(paragraph, "qas", list, inside), inside, place, answered, seen)


def _questions(
    context: str, entries: list[Any], inside: str, place: str, answered: bool, seen: set[str]
) -> Iterator[Question]:
    for number, one in enumerate(entries, start=1):
        name = one.get("id") if isinstance(one, dict) else None
        known = isinstance(name, str | int) and not isinstance(name, bool)
        where = f"{place}, question {quoted(str(name))}" if known else f"{inside}, question {number}"
        text = _field(_is(one, dict, where), "question", str, where)
        if known and str(name) in seen:
            raise DataError(f"{where}: an earlier question has the same id; each needs its own")
        seen.update([str(name)] if known else [])
        answers = _answers(context, one, where) if answered else None
        made = Question(context, text, answers, sentences_in(context), place=where, id=str(name) if known else "")
        yield check_question(made)


def _answers(context: str, entry: dict[str, Any], where: str) -> tuple[GivenAnswer, ...]:
    impossible = _field(entry, "is_impossible", bool, where) if "is_impossible" in entry else False
    none = impossible and entry.get("answers") is None
    found = [_given(context, one, where) for one in ([] if none else _field(entry, "answers", list, where))]
    if impossible and found:
        raise DataError(f"{where}: it is_impossible and has answers; one of the two is wrong")
    if not impossible and not found:
        raise DataError(f"{where}: it has no answers; give one, or say is_impossible: true if the context has none")
    return tuple(dict.fromkeys(found))


def _given(context: str, answer: Any, where: str) -> GivenAnswer:
    text = _field(_is(answer, dict, where), "text", str, where)
    start = _field(answer, "answer_start", int, where)
    if not text.strip():
        raise DataError(f"{where}: an answer is empty; a question without an answer says is_impossible: true")
    there = context[start : start + len(text)] if start >= 0 else ""
    if there == text:
        return GivenAnswer(text, start)
    elsewhere = context.find(text)
    if elsewhere < 0:
        hint = "it stands nowhere in the context"
    else:
        hint = f"it stands at {elsewhere}; places are counted in characters (code points), not in bytes or UTF-16 units"
    raise DataError(f"{where}: at answer_start {start} stands {quoted(there)}, not the answer {quoted(text)}; {hint}")


def _field(tree: dict[str, Any], name: str, kind: type, place: str) -> Any:
    if name not in tree:
        raise DataError(f"{place}: there is no field {name!r}.{nearest(name, tree)}")
    return _is(tree[name], kind, f"{place}, {name}")


def _is(value: Any, kind: type, place: str) -> Any:
    """The value, if it is of that kind; true and false are no numbers."""
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        found = _KINDS.get(type(value), "null" if value is None else "a number")
        raise DataError(f"{place}: {_KINDS[kind]} is expected, not {found}")
    return value
