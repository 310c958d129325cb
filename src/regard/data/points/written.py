r"""Sets of points as people write them: CSV, JSON, or a line of text.

| | points in the plane | numbers |
|---|---|---|
| CSV | one point per line, `x,y`, with or without a header; an empty line ends a set | one set per line, `20, 5` |
| text | one set per line, `0,0 1,0.5 0.3,1` | `20 5 10` |
| JSON | `[[0, 0], [1, 0.5]]`, `{"points": …}`, or a list of such | `[20, 5, 10]`, or a list of such |
| JSON Lines | one of these per line, as `regard solve --format jsonl` writes them | likewise |
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from regard.data.points.problem import PointProblem, PointSet
from regard.errors import DataError, quoted

_LARGEST = 1e150
"""Beyond it squares, and with them lengths and areas, are infinite in double precision."""


def read_sets(lines: Iterable[str], problem: PointProblem, origin: str) -> Iterator[PointSet]:
    """The sets of a file or a text; CSV is read line by line, JSON as a whole.

    Args:
        lines: of the file.
        problem: how many numbers a point has, and how many points a set needs.
        origin: what errors call the file.

    Raises:
        DataError: something that is no set of points; the message names the origin and the line, or which set it is of
            JSON that is one list.
    """
    numbered = enumerate(lines, start=1)
    for number, line in numbered:
        if line.strip():
            whole = chain([(number, line)], numbered)
            yield from (_from_json if line.lstrip()[0] in "[{" else _from_lines)(whole, problem, origin)


def _from_lines(numbered: Iterable[tuple[int, str]], problem: PointProblem, origin: str) -> Iterator[PointSet]:
    points: list[list[float]] = []
    begun, heading = 0, problem.axes > 1
    for number, line in chain(numbered, [(0, "")]):
        place = f"{origin}, line {number}"
        if heading and _is_heading(line, problem.axes):
            continue
        heading = False
        try:
            read = _line(line, problem.axes)
        except ValueError as error:
            raise DataError(f"{place}: {error}. Expected {'numbers' if problem.axes == 1 else 'x,y'}") from error
        # A line of several points, or of numbers, is a set by itself; a set of one point per line ends at an empty
        # line.
        alone = problem.axes == 1 or len(read) > 1
        if points and (alone or not read):
            yield _checked(points, problem, f"{origin}, line {begun}")
            points = []
        if read and alone:
            yield _checked(read, problem, place)
        elif read:
            begun = begun if points else number
            points += read


def _is_heading(line: str, axes: int) -> bool:
    """Whether a line has words and no number, as the names of columns."""
    words = re.split(r"[,;\s]+", line.strip())
    return (
        len(words) >= axes
        and all(words)
        and not any(re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?|[-+]?(nan|inf)", one, re.I) for one in words)
    )


def _line(line: str, axes: int) -> list[list[float]]:
    text = re.sub(r"\s*([,;])\s*", r"\1", line.strip())
    if axes == 1:
        return [[_number(one)] for one in re.split(r"[,;\s]+", text) if one]
    groups = text.split()
    if len(groups) == axes and not any("," in group or ";" in group for group in groups):
        groups = [",".join(groups)]
    points = [[_number(one) for one in re.split("[,;]", group)] for group in groups]
    for point in points:
        if len(point) != axes:
            raise ValueError(f"{len(point)} number{'s' * (len(point) != 1)} where a point has {axes}")
    return points


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{quoted(text)} is no number") from None
    if not math.isfinite(value):
        raise ValueError(f"{quoted(text)} is no finite number")
    if abs(value) > _LARGEST:
        raise ValueError(f"{quoted(text)} is too large; numbers to {_LARGEST:g} are read")
    return value


def _from_json(numbered: Iterable[tuple[int, str]], problem: PointProblem, origin: str) -> Iterator[PointSet]:
    lines = list(numbered)
    try:
        content = json.loads("\n".join(line for _, line in lines))
    except (ValueError, RecursionError) as error:
        each = _json_lines(lines, origin)
        if each is None:
            raise _no_json(origin, lines[0][0], error) from error
        places = [(f"{origin}, line {number}", entry) for number, entry in each]
    else:
        # A list of sets is nested one deeper than a set.
        several = isinstance(content, list) and (not content or _depth(content) > problem.axes)
        places = [(f"{origin}, set {n}", one) for n, one in enumerate(content, 1)] if several else [(origin, content)]
    for place, entry in places:
        yield _checked(_points(entry, problem, place), problem, place)


def _json_lines(lines: list[tuple[int, str]], origin: str) -> list[tuple[int, Any]] | None:
    """Each line by itself, where the first one is JSON by itself; else None, for JSON that goes over several lines.

    Raises:
        DataError: a later line is none.
    """
    entries: list[tuple[int, Any]] = []
    for number, line in lines:
        try:
            entries += [(number, json.loads(line))] if line.strip() else []
        except (ValueError, RecursionError) as error:
            if not entries:
                return None
            raise _no_json(origin, number, error) from error
    return entries


def _no_json(origin: str, first: int, error: Exception) -> DataError:
    """The line and the column that cannot be read, in a text that begins with the file's line `first`."""
    if isinstance(error, json.JSONDecodeError):
        place = f"line {first + error.lineno - 1}"
        return DataError(f"{origin}, {place}: this is no JSON: {error.msg} at column {error.colno}")
    return DataError(f"{origin}, line {first}: this is no JSON: {error}")


def _depth(content: Any) -> int:
    """How deep the lists are nested, at their first entries; a table counts as the set in it."""
    if isinstance(content, dict):
        return _depth(content.get("points"))
    return 1 + _depth(content[0]) if isinstance(content, list) and content else int(isinstance(content, list))


def _points(entry: Any, problem: PointProblem, place: str) -> list[list[float]]:
    given = entry.get("points") if isinstance(entry, dict) else entry
    shape = "[20, 5, 10]" if problem.axes == 1 else "[[0, 0], [1, 0.5], [0.3, 1]]"
    if isinstance(given, list):
        points = [point if isinstance(point, list) else [point] for point in given]
        right = all(
            isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
            for point in points
            for value in point
        )
        if right and all(len(point) == problem.axes for point in points):
            return points
    raise DataError(f'{place}: expected a set such as {shape}, or {{"points": {shape}}}')


def _checked(points: list[list[float]], problem: PointProblem, place: str) -> PointSet:
    if len(points) < problem.least:
        raise DataError(f"{place}: a set of {len(points)}; {problem.name} needs {problem.least} or more")
    return np.array(points, dtype=np.float64)
