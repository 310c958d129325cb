"""A text in three parts: to train on, to validate on, to test on. No part stands in the middle of another."""

from collections.abc import Callable, Iterator

from regard.data.language.settings import LanguageData
from regard.data.settings import PARTS, Part
from regard.data.text.documents import Line, iterate_text
from regard.errors import ConfigError, DataError

_VERBS = dict(zip(PARTS, ("train", "validate", "test"), strict=True))


def text_size(settings: LanguageData) -> int:
    """The length of the text that is to be split: its lines, or its characters with the line breaks.

    Raises:
        ConfigError: no text is named.
        DataError: a file cannot be read.
    """
    if settings.text is None:
        raise ConfigError("no text is named; give data.text=FILE")
    size = line_size(settings)
    return sum(size(line) for line in iterate_text(settings.text, settings.fields))


def iterate_parts(settings: LanguageData, total: int) -> Iterator[tuple[Part, Line]]:
    """Every line of the text with the part that it belongs to, training first, then validation, then test.

    Where no files are named for them, the end of the text is for the test and what stands before it for the validation.
    Where documents have borders, a part begins with the first document that begins in its share.

    Args:
        settings: which text, and the shares.
        total: what `text_size` says of it.
    """
    assert settings.text is not None
    borders, size = _borders(settings, total), line_size(settings)
    whole = settings.documents != "running"
    at = part = 0
    for line in iterate_text(settings.text, settings.fields):
        end = at + size(line)
        while part < 2 and borders[part] < end:
            front = borders[part] - at
            if whole and (front > 0 or not line.first):
                break
            if front > 0:
                yield PARTS[part], Line(line.text[:front], line.first, ends=False)
                line, at = Line(line.text[front:]), borders[part]
            part += 1
        yield PARTS[part], line
        at = end
    for name, given in (("validation", settings.validation), ("test", settings.test)):
        if given is not None:
            for line in iterate_text(given, settings.fields):
                yield PARTS[PARTS.index(name)], line


def read_parts(settings: LanguageData) -> dict[Part, list[Line]]:
    """The three parts, in memory.

    Raises:
        ConfigError: no text is named.
        DataError: a file cannot be read, or a part has no text.
    """
    parts: dict[Part, list[Line]] = {name: [] for name in PARTS}
    total = text_size(settings)
    for part, line in iterate_parts(settings, total):
        parts[part].append(line)
    require_text(settings, total, {name: sum(bool(line.text.strip()) for line in parts[name]) for name in PARTS})
    return parts


def require_text(settings: LanguageData, total: int, counts: dict[Part, int]) -> None:
    """Refuse a part without text; a test that is not wanted may be empty.

    Args:
        settings: which text, and the shares.
        total: what `text_size` says of it.
        counts: of each part, how many of its lines are not blank.

    Raises:
        DataError: a part has none.
    """
    for name, count in counts.items():
        wanted = name != "test" or settings.test is not None or settings.test_share > 0
        if wanted and not count:
            raise DataError(
                f"the text has {total} {settings.split}, and those to {_VERBS[name]} on are none or blank; give more "
                "text, another share, or files of their own (data.validation, data.test)"
            )


def _borders(settings: LanguageData, total: int) -> tuple[int, int]:
    """Where the validation and the test begin."""
    test = total if settings.test else total - round(total * settings.test_share)
    return test - (0 if settings.validation else round(total * settings.validation_share)), test


def line_size(settings: LanguageData) -> Callable[[Line], int]:
    """The measure of a line's length where the text is split: 1, or its characters and its line break."""
    return (lambda line: 1) if settings.split == "lines" else (lambda line: len(line.text) + 1)


def vocabulary_lines(settings: LanguageData, total: int) -> Iterator[str]:
    """The lines of training that the vocabulary is learned from: all, or so many, evenly spread."""
    most = settings.vocabulary_lines
    if most is None:
        yield from _training(settings, total)
        return
    count = sum(1 for _ in _training(settings, total))
    for number, text in enumerate(_training(settings, total)):
        if (number + 1) * most // count > number * most // count:
            yield text


def _training(settings: LanguageData, total: int) -> Iterator[str]:
    for part, line in iterate_parts(settings, total):
        if part != "training":
            return
        yield line.text
