"""A translation from within: what every layer and head attended to, and how it was generated, step by step."""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.settings import SearchSettings
from regard.errors import DataError, RegardError
from regard.layers.decoder import Step
from regard.models.transformer.translator import TransformerTranslator
from regard.tasks.core.lines import Line
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.views.generation import StepWeights, generation_view
from regard.tasks.views.heads import Heads, heads_of, heads_view
from regard.views.view import View
from regard.vocabulary import BEGIN, END, SPECIALS


class Reread(NamedTuple):
    """A text and its translation, read once more by the model.

    Attributes:
        source: the text.
        ids: its tokens and EOS, one row.
        written: the tokens that the decoder generated, EOS last if it came.
        step: the decoder's output for BOS and then all of them but the last, in one call.
        notes: what was done to the texts.
    """

    source: Line
    ids: Tensor
    written: list[int]
    step: Step
    notes: list[str]

    @property
    def source_tokens(self) -> list[str]:
        """The tokens of the source, EOS last."""
        return [*self.source.tokens, SPECIALS[END]]


def heads_of_translation(
    translator: TranslationPredictor,
    text: str,
    target: str | None = None,
    search: SearchSettings | None = None,
    language: str = "en",
) -> View:
    """All layers and heads: the encoder's, the decoder's own, and its cross-attention to the source.

    Args:
        translator: a Transformer.
        text: the source.
        target: a translation to read in place of the model's own.
        search: in place of the run's own.
        language: of the words around the numbers, en or zh.

    Raises:
        DataError: the source is empty.
        RegardError: the model is no Transformer.
    """
    model = translator.model
    if not isinstance(model, TransformerTranslator):
        raise RegardError(
            "only one Transformer has layers of heads to show; a recurrent translator reads the source with one "
            "attention, which regard show RUN TEXT draws without --heads"
        )
    read = _reread(translator, text, target, search)
    with torch.no_grad():
        encoded = model.read(read.ids, torch.tensor([read.ids.shape[1]], device=read.ids.device)).attended
    heads = heads_of(encoded, read.source_tokens, side="encoder")
    written = translator.target.tokens(read.written)
    inputs = [SPECIALS[BEGIN], *written[:-1]]
    for name, attended in read.step.attended.items():
        rows, columns = (written, read.source_tokens) if name.startswith("cross") else (inputs, inputs)
        heads += heads_of({name: attended}, rows, {name.split()[0]: columns}, side="decoder")
    return heads_view(_in_order(heads), read.notes, language)


def steps_of_translation(
    translator: TranslationPredictor,
    text: str,
    target: str | None = None,
    search: SearchSettings | None = None,
    language: str = "en",
) -> View:
    """Each step of decoding: its attention over the source, and what it found most probable.

    Args:
        translator: of any kind, or several as one.
        text: the source.
        target: a translation to read in place of the model's own.
        search: in place of the run's own.
        language: of the words around the numbers, en or zh.

    Raises:
        DataError: the source is empty.
    """
    read = _reread(translator, text, target, search)
    alignment = translator.model.decoder.alignment
    looks = []
    if alignment is not None:
        weights = read.step.weights(alignment)[0]
        looks.append(StepWeights(weights, read.source_tokens))
    return generation_view(
        read.step.logits[0],
        torch.tensor(read.written, device=read.ids.device),
        translator.target.token,
        looks,
        notes=read.notes,
        language=language,
    )


@torch.no_grad()
def _reread(translator: TranslationPredictor, text: str, target: str | None, search: SearchSettings | None) -> Reread:
    source = translator.read(text)
    if not source.ids:
        raise DataError("the text is empty: there is nothing to look at")
    if target is None:
        best = translator.translate([text], search)[0].outputs[0]
        written = [*best.ids, END] if best.finished else best.ids
        note = None if best.finished else "the translation did not end by itself and was cut off"
    else:
        given = translator.read_target(target)
        written, note = [*given.ids, END], given.note
    model = translator.model
    model.eval()
    device = next(model.parameters()).device
    ids = torch.tensor([[*source.ids, END]], device=device)
    inputs = torch.tensor([[BEGIN, *written[:-1]]], device=device)
    memory = model.encode(ids, torch.tensor([ids.shape[1]], device=device))
    step = model.decoder.step(model.decoder.start(memory, 1), inputs)
    return Reread(source, ids, written, step, [one for one in (source.note, note) if one])


def _in_order(heads: list[Heads]) -> list[Heads]:
    """The decoder's self-attention first, then its cross-attention."""
    return sorted(heads, key=lambda one: one.part.endswith("cross"))
