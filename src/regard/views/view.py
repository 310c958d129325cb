"""Views as data: matrices of numbers with a label for each row and each column.

A matrix is drawn as cells, or, where its kind says so, as lines: a row is a line, a column a place along it. A `Plane`
is a matrix of coordinates, drawn as points and the lines between them; an `Overlay` is a grid of weights, drawn as
light on an image. Both may stand beside others in any view.

A task makes a `View`; the renderers (terminal, picture, page) and the files (json, csv) show it. New kinds of view are
new entries of `KINDS`, never new renderers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from regard.errors import ConfigError, DataError, ShapeError, nearest
from regard.views.words import WORDS, Phrases


@dataclass(frozen=True)
class Kind:
    """A kind of view.

    Args:
        of_weights: whether its numbers are attention weights; then every rendering says that a weight is not an effect.
        row_axis: what a row is, by language, where a matrix doesn't say it.
        column_axis: what a column is, likewise.
        drawn: as cells, or as lines; a line's matrix has a title that says what its numbers are.
    """

    of_weights: bool
    row_axis: dict[str, str]
    column_axis: dict[str, str]
    drawn: Literal["cells", "lines"] = "cells"


KINDS: dict[str, Kind] = {
    "alignment": Kind(True, {"en": "target", "zh": "目标"}, {"en": "source", "zh": "来源"}),
    "attention": Kind(True, {"en": "query", "zh": "查询"}, {"en": "key", "zh": "键"}),
    "memory": Kind(True, {"en": "time step", "zh": "时间步"}, {"en": "slot", "zh": "槽"}),
    "answers": Kind(False, {"en": "time step", "zh": "时间步"}, {"en": "bit", "zh": "位"}),
    "heads": Kind(True, {"en": "query", "zh": "查询"}, {"en": "key", "zh": "键"}),
    "generation": Kind(True, {"en": "step", "zh": "步"}, {"en": "attended to", "zh": "关注的位置"}),
    "pointing": Kind(True, {"en": "step", "zh": "步"}, {"en": "points at", "zh": "指向"}),
    "looking": Kind(True, {"en": "row", "zh": "行"}, {"en": "column", "zh": "列"}),
    "plane": Kind(False, {"en": "point", "zh": "点"}, {"en": "coordinate", "zh": "坐标"}),
    "lines": Kind(False, {"en": "line", "zh": "曲线"}, {"en": "place", "zh": "位置"}, drawn="lines"),
}


@dataclass(frozen=True, eq=False)
class Matrix:
    """Numbers with a label for each row and column; for an alignment, rows are target words and columns source words.

    Args:
        values: (rows, columns); an array, nested lists, or a tensor (taken off its device and graph). Kept as float64.
        rows: one label per row. Labels may repeat: each keeps its own row.
        columns: one label per column.
        title: what this matrix is, e.g. the sentence or the head.
        row_axis: what a row is; empty for the default of the view's kind.
        column_axis: what a column is, likewise.
        texts: what stands in each cell before its number, such as a word beside its probability; an empty text is
            none, and so are no texts at all.

    Raises:
        ShapeError: the values are no matrix, or a number of labels or texts differs from the matrix's size.
        DataError: a label is no text.
    """

    values: np.ndarray | Any  # an array once made; anything that `_array` takes when given
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    row_axis: str = ""
    column_axis: str = ""
    texts: Sequence[Sequence[str]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "texts", tuple(map(tuple, self.texts)))
        values = _array(self.values)
        if values.size == 0 and values.ndim == 1 and not (self.rows and self.columns):
            values = values.reshape(len(self.rows), len(self.columns))
        if values.ndim != 2:
            raise ShapeError(
                f"a matrix of a view has 2 axes (rows, columns), but values of shape {values.shape} were given; "
                "choose one item and one head first"
            )
        for name, labels, size in (("row", self.rows, values.shape[0]), ("column", self.columns, values.shape[1])):
            if len(labels) != size:
                raise ShapeError(
                    f"{len(labels)} {name} labels for {size} {name}s: the matrix is {values.shape[0]} × "
                    f"{values.shape[1]} and needs exactly one label per {name}"
                )
        if self.texts and [len(row) for row in self.texts] != [values.shape[1]] * values.shape[0]:
            raise ShapeError(
                f"the texts of a matrix stand in its cells, {values.shape[0]} rows of {values.shape[1]}, but rows of "
                f"{[len(row) for row in self.texts]} were given"
            )
        written = [text for row in self.texts for text in row]
        for text in (*self.rows, *self.columns, *written, self.title, self.row_axis, self.column_axis):
            _check_text(text)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, eq=False)
class Plane(Matrix):
    """Points in the plane: a row is a vertex of a polyline, its columns x and y.

    A row of NaN ends a polyline; one of a single vertex is a point alone, and one that ends where it began is closed.
    Rows with one label and place are one point.

    Raises:
        ShapeError: the values have not two columns.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values.shape[1] != 2:
            raise ShapeError(f"a plane's columns are x and y, but values of shape {self.values.shape} were given")


@dataclass(frozen=True, eq=False)
class Overlay(Matrix):
    """Attention over an image: a grid of weights on it, the first row at the top.

    Args:
        image: `(height, width, 3)`, uint8: red, green, blue. Overlays of one array share it in files.
        boxes: left, top, right and bottom of known objects in the image's pixels; they are outlined.

    Raises:
        ShapeError: the image is no such array, or a box is not four numbers.
    """

    image: np.ndarray | Any = field(kw_only=True)
    boxes: Sequence[Sequence[float]] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        image = np.asarray(self.image)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise ShapeError(
                f"an overlay's image is (height, width, 3) of uint8, but {image.shape} of {image.dtype} was given"
            )
        boxes = tuple(tuple(map(float, box)) for box in self.boxes)
        if any(len(box) != 4 or not np.isfinite(box).all() for box in boxes):
            raise ShapeError(f"a box is four numbers (left, top, right, bottom), but {boxes} were given")
        object.__setattr__(self, "image", image)
        object.__setattr__(self, "boxes", boxes)

    @classmethod
    def on(cls, image: np.ndarray, weights: Any, title: str, boxes: Sequence[Sequence[float]] = ()) -> "Overlay":
        """A grid of weights whose rows and columns are numbered from 1, such as those of one word."""
        rows, columns = ([str(number + 1) for number in range(size)] for size in (*np.shape(weights), 0, 0)[:2])
        return cls(weights, rows, columns, title, image=image, boxes=boxes)


@dataclass(frozen=True, eq=False)
class View:
    """Matrices to look at together, on one scale of colour.

    Args:
        kind: a name of `KINDS`.
        title: the heading.
        matrices: what to show, e.g. one per sentence or one per head.
        notes: sentences shown with it. For weights the renderers add the standing note themselves (`all_notes`).
        language: "en" or "zh", for the words around the numbers.
        across: how many matrices stand side by side, of many small ones in a grid; None: as many as there is room for.
        overview: what a terminal shows in place of the matrices, and a page above them, where there are many.

    Raises:
        ConfigError: an unknown kind or language.
        DataError: the title or a note is no text.
    """

    kind: str
    title: str
    matrices: Sequence[Matrix]
    notes: Sequence[str] = ()
    language: str = "en"
    across: int | None = None
    overview: Sequence[Matrix] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"no kind of view is named {self.kind!r}.{nearest(self.kind, KINDS)}")
        if self.language not in WORDS:
            raise ConfigError(f"no language of views is named {self.language!r}.{nearest(self.language, WORDS)}")
        object.__setattr__(self, "matrices", tuple(self.matrices))
        object.__setattr__(self, "overview", tuple(self.overview))
        object.__setattr__(self, "notes", (self.notes,) if isinstance(self.notes, str) else tuple(self.notes))
        for text in (self.title, *self.notes):
            _check_text(text)

    @property
    def of_lines(self) -> bool:
        """Whether its matrices are drawn as lines."""
        return KINDS[self.kind].drawn == "lines"

    @property
    def words(self) -> Phrases:
        """The phrases around the numbers, in the view's language."""
        return WORDS[self.language]

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What every rendering says below the numbers: for weights, first that a weight is not an effect."""
        standing = (self.words.not_an_effect,) if KINDS[self.kind].of_weights else ()
        return standing + tuple(note for note in self.notes if note not in standing)

    def axes(self, matrix: Matrix) -> tuple[str, str]:
        """What a row and a column of this matrix are called."""
        kind = KINDS["plane" if isinstance(matrix, Plane) else self.kind]
        return matrix.row_axis or kind.row_axis[self.language], matrix.column_axis or kind.column_axis[self.language]


def _array(values: Any) -> np.ndarray:
    """A fresh float64 array; tensors by what they can do, so that this room needs no torch."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"the values of a matrix must be real numbers in rows of equal length: {error}") from error


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise DataError(f"labels, titles and notes are text, but {text!r} of type {type(text).__name__} was given")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text {text!r} holds half a character at place {error.start} and cannot be shown or saved; "
            "decode the bytes with errors='replace' first"
        ) from error
