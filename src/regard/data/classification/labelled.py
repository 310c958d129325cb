"""Sentences with labels: read, and split by their words, so that copies of a text are never on two sides."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.classification.settings import NAMED, LabelledSettings
from regard.data.text.lines import iterate_lines
from regard.errors import ConfigError, DataError, quoted

_MOST_LABELS = 1_000


class Labelled(NamedTuple):
    """One sentence.

    Attributes:
        text: as it was given.
        label: what it is.
        place: its file and line.
    """

    text: str
    label: str
    place: str


def read_labelled(settings: LabelledSettings) -> list[Labelled]:
    """All sentences of the origin that is named, blank ones left out.

    Raises:
        ConfigError: none is named.
        DataError: a file or a line of it cannot be used, or nothing is left.
    """
    if settings.tsv is not None:
        found = list(_of_table(settings.tsv, settings.separator, settings.columns))
    elif settings.jsonl is not None:
        found = list(_of_objects(settings.jsonl))
    elif settings.files is not None:
        found = [
            Labelled(line, _label(label, f"the file {path}"), f"{path}, line {number}")
            for label, path in settings.files.items()
            for number, line in enumerate(iterate_lines(path), start=1)
        ]
    else:
        raise ConfigError(f"no sentences are named; give {NAMED}")
    kept = [one for one in found if one.text.strip()]
    if not kept:
        raise DataError("there are no sentences in what was named: the files are empty, or of blank lines alone")
    return kept


def without_a_sentence(settings: LabelledSettings, sentences: Collection[Labelled]) -> list[str]:
    """In words: the files of a label in which there is no sentence."""
    filled = {one.label for one in sentences}
    return [
        f"{path} has no sentence of the label {quoted(label.strip())}: it is empty, or of blank lines alone"
        for label, path in (settings.files or {}).items()
        if label.strip() not in filled
    ]


def labels_of(sentences: list[Labelled]) -> list[str]:
    """The labels that occur, in alphabetical order.

    Raises:
        DataError: there is only one, so there is nothing to classify; or so many that they are surely no labels.
    """
    labels = sorted({one.label for one in sentences})
    if len(labels) < 2:
        raise DataError(f"every sentence has the label {quoted(labels[0])}; a classifier needs at least two labels")
    if len(labels) > _MOST_LABELS:
        raise DataError(
            f"{len(labels)} different labels, such as {quoted(labels[0])}: that many are surely no labels; name the "
            "column of the labels: data.columns=[2,1] where it comes first"
        )
    return labels


def _of_table(path: Path, separator: str, columns: tuple[int, int]) -> Iterator[Labelled]:
    text, label = columns
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line.strip():
            continue
        cells = line.split(separator)
        place = f"{path}, line {number}"
        if len(cells) < max(columns):
            raise DataError(
                f"{place}: {len(cells)} columns between {separator!r}; text and label are in columns {text} and {label}"
            )
        yield Labelled(cells[text - 1], _label(cells[label - 1], place), place)


def _of_objects(path: Path) -> Iterator[Labelled]:
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            entry = json.loads(line)
            text, label = entry["text"], entry["label"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f'{place}: expected {{"text": …, "label": …}} ({type(error).__name__}: {error})') from error
        if not isinstance(text, str) or isinstance(label, dict | list | float) or label is None:
            raise DataError(f"{place}: a text is a string, and a label a string, a whole number, true or false")
        yield Labelled(text, _label(str(label), place), place)


def _label(text: str, place: str) -> str:
    label = text.strip()
    if not label or set(label) & set("\t\n\r"):
        raise DataError(f"{place}: the label {quoted(text)} is blank or holds a tab or a line break")
    return label
