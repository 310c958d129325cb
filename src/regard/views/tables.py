"""A view as data files, every number and label exactly as it was: JSON (everything) and CSV (numbers and labels).

An overlay's image is a PNG in base64, each of a view's images once. JSON has no NaN or infinity; they are written
as the strings "NaN", "Infinity", "-Infinity".

CSV has a block per matrix: a line of column labels (in its corner the axes, and an overlay's title), a line per row,
labels in quotes, in UTF-8 with a byte-order mark (so that spreadsheets read Chinese). Several matrices are separated by
an empty line. A spreadsheet takes a cell that begins with = + - @ for a formula; such a label gets an apostrophe in
front, and so does a label that begins with an apostrophe, so that reading takes off exactly one.
"""

import base64
import csv
import io
import json
import math
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.errors import DataError
from regard.views.overlay import key, png, shared
from regard.views.view import Matrix, Overlay, Plane, View

FORMAT = "regard view 1"

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(view: View) -> str:
    """The whole view as JSON; `from_json` gives it back."""
    images = shared([matrix for matrix in (*view.overview, *view.matrices) if isinstance(matrix, Overlay)])
    places = {key(image): number for number, image in enumerate(images)}
    content = {
        "format": FORMAT,
        "kind": view.kind,
        "title": view.title,
        "language": view.language,
        "notes": list(view.all_notes),
        "across": view.across,
        **({"images": [base64.b64encode(png(image)).decode("ascii") for image in images]} if images else {}),
        "overview": [_matrix_content(view, matrix, places) for matrix in view.overview],
        "matrices": [_matrix_content(view, matrix, places) for matrix in view.matrices],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str) -> View:
    """Read a view that `to_json` wrote.

    Raises:
        DataError: the text is no such file.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"this is no JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"this is no view that regard wrote: its JSON has no field \"format\" that says '{FORMAT}'")
    try:
        images = [_image(text) for text in content.get("images", ())]
        matrices = [_matrix(entry, images) for entry in content["matrices"]]
        # Views of the first releases say neither.
        across, overview = content.get("across"), [_matrix(entry, images) for entry in content.get("overview", ())]
        return View(
            content["kind"], content["title"], matrices, content["notes"], content["language"], across, overview
        )
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(f"this view is damaged: {error!r}") from error


def to_csv(view: View) -> str:
    """Numbers and labels of all matrices; the corner of each block says what rows and columns are."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for number, matrix in enumerate(view.matrices):
        if number:
            lines.write("\n")
        row_axis, column_axis = view.axes(matrix)
        title = f"{matrix.title}: " if isinstance(matrix, Overlay) else ""  # which word this is, stands nowhere else
        writer.writerow([_guarded(f"{title}{row_axis} \\ {column_axis}"), *map(_guarded, matrix.columns)])
        for label, values in zip(matrix.rows, matrix.values.tolist(), strict=True):
            writer.writerow([_guarded(label), *values])
    return "\ufeff" + lines.getvalue()


def from_csv(text: str) -> list[Matrix]:
    """Read the matrices (numbers and labels) that `to_csv` wrote; line breaks must be as they are in the file.

    Raises:
        DataError: it holds something else.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    blocks = [list(block) for full, block in groupby(reader, key=bool) if full]
    try:
        return [
            Matrix(
                [[float(value) for value in line[1:]] for line in lines],
                [_unguarded(line[0]) for line in lines],
                [_unguarded(label) for label in head[1:]],
            )
            for head, *lines in blocks
        ]
    except ValueError as error:
        raise DataError(f"this CSV holds something other than labels and numbers: {error}") from error


def read_view(path: str | Path) -> View:
    """Read a view from a .json file."""
    return from_json(Path(path).read_text("utf-8"))


def _matrix(entry: dict[str, Any], images: list[np.ndarray]) -> Matrix:
    named = {name: entry[name] for name in ("rows", "columns", "title", "row_axis", "column_axis")}
    named |= {"values": [[_number(value) for value in row] for row in entry["values"]], "texts": entry.get("texts", ())}
    if "image" in entry:
        return Overlay(**named, image=images[entry["image"]], boxes=entry["boxes"])
    return (Plane if entry.get("plane") else Matrix)(**named)


def _matrix_content(view: View, matrix: Matrix, places: dict[Any, int]) -> dict[str, Any]:
    row_axis, column_axis = view.axes(matrix)
    return {
        "title": matrix.title,
        "row_axis": row_axis,
        "column_axis": column_axis,
        "rows": list(matrix.rows),
        "columns": list(matrix.columns),
        "values": [[_json_number(value) for value in row] for row in matrix.values.tolist()],
        **({"texts": [list(row) for row in matrix.texts]} if matrix.texts else {}),
        **({"plane": True} if isinstance(matrix, Plane) else {}),
        **({"image": places[key(matrix.image)], "boxes": matrix.boxes} if isinstance(matrix, Overlay) else {}),
    }


def _image(text: Any) -> np.ndarray:
    try:
        return np.array(Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=("PNG",)).convert("RGB"))
    except Exception as error:  # decoders raise nearly anything when an image is damaged, or is a bomb
        raise DataError(f"an image of this view is damaged: {error}") from error


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _number(value: Any) -> float:
    return _NOT_FINITE[value] if isinstance(value, str) else float(value)


def _guarded(label: str) -> str:
    return "'" + label if label.startswith(_FORMULA_STARTS) else label


def _unguarded(label: str) -> str:
    return label.removeprefix("'")
