"""A text as it was generated, step by step: what each step attended to, and its most probable alternatives."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.tokenizers.base import visible
from regard.errors import DataError
from regard.views.view import Matrix, View

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "title": "How it was generated, step by step",
        "looked": "What each step attended to",
        "likely": "What each step found most probable",
        "step": "writes",
        "rank": "place",
        "written": "written",
    },
    "zh": {
        "title": "逐步写成的过程",
        "looked": "每一步看了哪里",
        "likely": "每一步认为最可能的是什么",
        "step": "写出",
        "rank": "名次",
        "written": "写出者",
    },
}


class StepWeights(NamedTuple):
    """The weights of the steps, as one table.

    Attributes:
        weights: one row per step.
        columns: what was attended to.
        title: which attention this is; empty where there is one alone.
    """

    weights: Float[Tensor, "steps columns"]
    columns: Sequence[str]
    title: str = ""


def generation_view(
    logits: Float[Tensor, "steps choices"],
    written: Int[Tensor, " steps"],
    spell: Callable[[int], str],
    looks: Sequence[StepWeights] = (),
    *,
    most: int = 4,
    notes: Sequence[str] = (),
    language: str = "en",
) -> View:
    """The view: a row is a step, named by what it wrote.

    Args:
        logits: what each step chose from.
        written: what each step wrote, whether or not it was its likeliest.
        spell: how an id is written.
        looks: the weights of the steps.
        most: how many of each step's likeliest choices are shown beside the one written.
        notes: what was done to the text.
        language: of the words around it, en or zh.

    Raises:
        DataError: nothing was written.
    """
    if not len(written):
        raise DataError("nothing was written: there is no step to look at")
    words = _WORDS[language]
    probabilities = logits.detach().double().softmax(-1)
    rows = [visible(spell(one)) for one in written.tolist()]
    matrices = [
        Matrix(look.weights, rows, [visible(token) for token in look.columns], look.title or words["looked"])
        for look in looks
    ]
    values, ids = probabilities.topk(min(most, probabilities.shape[-1]), dim=-1)
    own = probabilities.gather(-1, written.unsqueeze(-1))
    likely = Matrix(
        torch.cat([own, values], dim=-1),
        rows,
        [words["written"], *map(str, range(1, values.shape[-1] + 1))],
        words["likely"],
        words["step"],
        words["rank"],
        texts=[["", *(visible(spell(one)) for one in each)] for each in ids.tolist()],  # the row says what was written
    )
    return View("generation", words["title"], [*matrices, likely], notes, language)
