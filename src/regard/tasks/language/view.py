"""What a language model attended to while it read or generated a text, as a picture."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import DataError, RegardError
from regard.layers.decoder import Step
from regard.models.text.language import LanguageModel
from regard.models.text.language_models import Model
from regard.tasks.views.generation import StepWeights, generation_view
from regard.tasks.views.heads import heads_of, heads_view
from regard.tasks.views.past import past_matrices, past_view, past_weights
from regard.views.view import View

_LAYER = {"en": "layer {number}: what each step attended to", "zh": "第 {number} 层：每一步看了哪里"}


def text_view(
    model: Model,
    ids: Sequence[int],
    labels: Sequence[str],
    kind: str,
    *,
    heads: bool,
    notes: Sequence[str],
    language: str,
) -> View:
    """What each token of a text attended to, one table per layer; with `heads` a table for each head of it.

    Args:
        model: in eval mode.
        ids: the input before the first token, then those of the text.
        labels: one for each of them.
        kind: of the model, for errors.
        heads: each head by itself.
        notes: what was done to the text.
        language: of the words around it, en or zh.

    Raises:
        DataError: there is nothing to look at.
        RegardError: the model does not attend, or has no heads.
    """
    if len(ids) < 2:
        raise DataError("the text is empty: there is nothing to look at")
    if not isinstance(model, LanguageModel):
        attended = _read(model, ids).attended
        if heads:
            return heads_view(heads_of(attended, labels), notes, language)
    elif heads:
        raise RegardError(f"this model has no heads: model.kind is {kind}; leave --heads out")
    return past_view(past_matrices(_tables(model, ids), labels, language), kind, notes, language)


def steps_view(
    model: Model,
    ids: Sequence[int],
    labels: Sequence[str],
    written: int,
    spell: Callable[[int], str],
    *,
    notes: Sequence[str],
    language: str,
) -> View:
    """What each step of a generated text attended to, and its most probable alternatives.

    The text is read once more in one go: cached or not, the numbers are the same.

    Args:
        model: in eval mode.
        ids: the input before the first token, then those of the whole text.
        labels: one for each of them.
        written: how many of the last ones the model wrote.
        spell: how an id is written.
        notes: what was done to the text.
        language: of the words around it, en or zh.

    Raises:
        DataError: nothing was written.
    """
    if not written:
        raise DataError("nothing was written: there is no step to look at; give a --length of 1 or more")
    read, first = ids[:-1], len(ids) - 1 - written
    tables = _tables(model, read)
    looks = [
        StepWeights(table[first:], labels[:-1], _LAYER[language].format(number=number) if len(tables) > 1 else "")
        for number, table in enumerate(tables, start=1)
    ]
    logits, written_ids = _read(model, read).logits[0, first:], torch.tensor(ids[-written:])
    return generation_view(logits.cpu(), written_ids, spell, looks, notes=notes, language=language)


@torch.no_grad()
def _tables(model: Model, ids: Sequence[int]) -> list[Float[Tensor, "reads read"]]:
    """What each position attended to, one table per layer, heads averaged."""
    if isinstance(model, LanguageModel):
        return past_weights(model.reader, model.embedding(_row(model, ids)))
    return [look.weights[0].mean(0).cpu() for look in _read(model, ids).attended.values()]


@torch.no_grad()
def _read(model: Model, ids: Sequence[int]) -> Step:
    step: Step = model.step(model.start(None, 1), _row(model, ids))
    return step


def _row(model: Model, ids: Sequence[int]) -> Tensor:
    return torch.tensor([list(ids)], device=next(model.parameters()).device)
