"""What each word of a text attends to, as a picture: a row attends to the columns before it."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizers.base import visible
from regard.errors import DataError, RegardError
from regard.models.text.reader import Reader
from regard.views.view import Matrix, View

_TITLE = {"en": "What each word attended to", "zh": "每个词回看了哪里"}
_LAYER = {"en": "layer {number}", "zh": "第 {number} 层"}
_ROW, _COLUMN = {"en": "word", "zh": "词"}, {"en": "its past", "zh": "它的过去"}


@torch.no_grad()
def past_weights(
    reader: Reader, inputs: Float[Tensor, "1 time inputs"], state: Any = None
) -> list[Float[Tensor, "time time"]]:
    """The weights of each position over those before it, one table per layer: 0 from the diagonal on.

    Args:
        reader: in eval mode.
        inputs: of one text.
        state: to start from; a fresh one if None.
    """
    time = inputs.shape[1]
    state = reader.start(1) if state is None else state
    tables: dict[str, Tensor] = {}
    for at in range(time):
        result = reader.step(state, inputs[:, at])
        state = result.state
        for name, attended in result.attended.items():
            weights = attended.weights[0, 0, -at:] if at else attended.weights.new_zeros(0)
            # The last slots of a tape are the steps just before, however much of it was rolled over.
            tables.setdefault(name, inputs.new_zeros(time, time))[at, at - len(weights) : at] = weights
    return list(tables.values())


def past_matrices(tables: Sequence[Tensor], tokens: Sequence[str], language: str = "en") -> list[Matrix]:
    """The tables with their labels.

    Raises:
        DataError: there are no tokens to look at.
    """
    if not tokens:
        raise DataError("the text is empty: there is nothing to look at")
    labels = [visible(token) for token in tokens]
    titles = [_LAYER[language].format(number=number) if len(tables) > 1 else "" for number in range(1, len(tables) + 1)]
    return [
        Matrix(table, labels, labels, title, _ROW[language], _COLUMN[language])
        for table, title in zip(tables, titles, strict=True)
    ]


def past_view(matrices: Sequence[Matrix], kind: str, notes: Sequence[str] = (), language: str = "en") -> View:
    """The picture.

    Args:
        matrices: what to show.
        kind: of the model, for the error.
        notes: what was done to the text.
        language: of the words around it.

    Raises:
        RegardError: the model does not attend.
    """
    if not matrices:
        raise RegardError(
            f"this model has no attention: model.kind is {kind}. Train one of model.kind=lstmn or transformer"
        )
    return View("attention", _TITLE[language], matrices, notes, language)
