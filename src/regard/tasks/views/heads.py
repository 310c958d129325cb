"""Every layer and head of a Transformer at once: a grid of small pictures, and in a terminal what each head is for.

The overview characterizes heads as Clark et al. (2019, "What does BERT look at?", section 3) and Voita et al. (2019,
"Analyzing multi-head self-attention", section 5) do: how much of their weight goes to the position itself, to its
neighbours, to the first and the last position, and to the position of highest weight.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizers.base import visible
from regard.errors import DataError, RegardError
from regard.views.view import Matrix, View

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "title": "What every layer and head attended to",
        "self": "self",
        "cross": "to source",
        "encoder": "encoder",
        "decoder": "decoder",
        "head": "{part} {layer}.{head}",
        "overview": "{part}, layer.head: share of its weight that a head gives, on average, to …",
        "row": "layer.head",
        "column": "given to",
        "itself": "itself",
        "before": "previous",
        "after": "next",
        "first": "first",
        "last": "last",
        "most": "most",
    },
    "zh": {
        "title": "每一层、每个头看了哪里",
        "self": "自注意力",
        "cross": "看来源",
        "encoder": "编码器",
        "decoder": "解码器",
        "head": "{part} {layer}.{head}",
        "overview": "{part}（层.头）：每个头平均把多少权重给了……",
        "row": "层.头",
        "column": "给了",
        "itself": "自身",
        "before": "前一个",
        "after": "后一个",
        "first": "第一个",
        "last": "最后一个",
        "most": "最多者",
    },
}


@runtime_checkable
class Weighted(Protocol):
    """Whatever has weights, as `Attended`."""

    @property
    def weights(self) -> Tensor:
        """`(batch, heads, queries, keys)`, or without the heads."""
        ...


class Heads(NamedTuple):
    """The heads of one attention of one layer, reading one text.

    Attributes:
        part: what attends: "self", "cross", or with the side before it, "encoder self", "decoder self".
        layer: from 0.
        weights: of each head.
        rows, columns: the tokens of the queries, and those of the keys.
    """

    part: str
    layer: int
    weights: Float[Tensor, "heads queries keys"]
    rows: Sequence[str]
    columns: Sequence[str]


def heads_of(
    attended: Mapping[str, Weighted],
    rows: Sequence[str],
    columns: Mapping[str, Sequence[str]] | None = None,
    side: str = "",
    item: int = 0,
) -> list[Heads]:
    """The attentions of a Transformer that are named "self 0", "cross 0", … by layer, for `heads_view`.

    Args:
        attended: by name, with weights `(batch, heads, queries, keys)`; more queries or keys than labels are padding.
        rows: the tokens of the queries.
        columns: the tokens of the keys, by "self" or "cross"; `rows` where they are not given.
        side: "encoder" or "decoder", where there are both.
        item: which of the batch.
    """
    found = []
    for name, one in attended.items():
        kind, _, layer = name.partition(" ")
        read = (columns or {}).get(kind, rows)
        weights = one.weights[item].detach()[:, : len(rows), : len(read)]
        found.append(Heads(f"{side} {kind}".strip(), int(layer), weights, rows, read))
    return found


def heads_view(heads: Sequence[Heads], notes: Sequence[str] = (), language: str = "en") -> View:
    """All layers and heads to look at together; those of one part stand together, one row of the grid per layer.

    Args:
        heads: one entry per layer and attention, of one text.
        notes: what was done to the text.
        language: of the words around it, en or zh.

    Raises:
        RegardError: there is nothing to show: the model has no heads.
        DataError: the text is empty.
    """
    if not heads:
        raise RegardError("this model has no layers of heads: only a Transformer (model.kind=transformer) has them")
    if any(not one.rows or not one.columns for one in heads):
        raise DataError("the text is empty: there is nothing to look at")
    parts = list(dict.fromkeys(one.part for one in heads))
    ordered = sorted(heads, key=lambda one: (parts.index(one.part), one.layer))
    return View(
        "heads",
        _WORDS[language]["title"],
        [matrix for one in ordered for matrix in _matrices(one, language)],
        notes,
        language,
        across=max(len(one.weights) for one in heads),
        overview=[_overview(part, list(group), language) for part, group in groupby(ordered, lambda one: one.part)],
    )


def _matrices(one: Heads, language: str) -> Iterator[Matrix]:
    rows, columns = ([visible(token) for token in side] for side in (one.rows, one.columns))
    for number, weights in enumerate(one.weights, start=1):
        part = _part(one.part, language)
        title = _WORDS[language]["head"].format(part=part, layer=one.layer + 1, head=number)
        yield Matrix(weights, rows, columns, title)


def _overview(part: str, layers: list[Heads], language: str) -> Matrix:
    words = _WORDS[language]
    rows, values = [], []
    for one in layers:
        for number, weights in enumerate(one.weights.double().cpu().numpy(), start=1):
            rows.append(f"{one.layer + 1}.{number}")
            values.append(_shares(weights, within=part.endswith("self")))
    columns = [words[name] for name in values[0]]
    title = words["overview"].format(part=_part(part, language))
    return Matrix([list(each.values()) for each in values], rows, columns, title, words["row"], words["column"])


def _shares(weights: np.ndarray, within: bool) -> dict[str, float]:
    """How a head spreads its weight, a mean over its queries; NaN where no query has such a neighbour."""
    shares: dict[str, Any] = {}
    if within:  # the queries stand among the keys, the last ones at the end
        own = weights.shape[1] - weights.shape[0]
        shares |= {
            "itself": weights.diagonal(own),
            "before": weights[max(0, 1 - own) :].diagonal(max(0, own - 1)),
            "after": weights.diagonal(own + 1),
        }
    shares |= {"first": weights[:, 0], "last": weights[:, -1], "most": weights.max(axis=1)}
    return {name: float(one.mean()) if one.size else float("nan") for name, one in shares.items()}


def _part(part: str, language: str) -> str:
    words = [_WORDS[language][word] for word in part.split()]
    return (" " if language == "en" else "").join(words)
