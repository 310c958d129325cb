"""A translation step by step, with the numbers of each: state, scores, weights, context, word."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from regard.data.tokenizers.base import visible
from regard.errors import DataError, RegardError
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.models.seq2seq.recurrent_decoder import SOURCE
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.seq2seq.source_attention import SourceAttention
from regard.tasks.translation.predictor import TranslationPredictor
from regard.vocabulary import BEGIN, END, SPECIALS
from regard.worked.translated import Read, Translated, Written


@torch.no_grad()
def translation_steps(
    translator: TranslationPredictor, text: str, target: str | None = None, name: str = "it"
) -> Translated:
    """Translate a text, and read the translation once more while every number is kept.

    Args:
        translator: a recurrent one with attention.
        text: the source.
        target: a translation to read in place of the model's own.
        name: what the translator is called.

    Raises:
        DataError: the source is empty.
        RegardError: the model has no attention.
    """
    model = translator.model
    decoder = model.decoder
    settings = translator.settings.model
    if not (isinstance(model, RecurrentTranslator) and isinstance(settings, RecurrentSettings)):
        raise RegardError(
            "the numbers of each step are those of one recurrent translator: a state, scores, weights, a context. Of a "
            "Transformer, regard show RUN TEXT --heads shows what every layer and head attended to"
        )
    look = model.decoder.source if decoder.alignment else None
    if not isinstance(look, SourceAttention):
        raise RegardError("this model has no attention (model.attention is none): it has no scores or weights to show")
    source = translator.read(text)
    if not source.ids:
        raise DataError("the text is empty: there is nothing to translate")
    written = translator.read_target(translator.translate([text])[0].text if target is None else target)
    model.eval()
    device = next(model.parameters()).device
    wanted = torch.tensor([[*written.ids, END]], device=device)
    ids = torch.tensor([[*source.ids, END]], device=device)
    memory = model.encode(ids, torch.tensor([ids.shape[1]], device=device))
    with _calls(look) as calls:
        step = decoder.step(decoder.start(memory, 1), torch.cat([wanted.new_tensor([[BEGIN]]), wanted[:, :-1]], dim=1))
    states = torch.cat([query for _, _, query, _ in calls], dim=1)[0]
    scores = torch.cat([look.scores(*call) for call in calls], dim=1)[0]
    attended = step.attended[SOURCE]
    context = attended.context
    assert context is not None
    probabilities = step.logits.softmax(-1).gather(-1, wanted.unsqueeze(-1))[0, :, 0]
    columns = zip(
        [*map(visible, written.tokens), SPECIALS[END]],
        *(part.tolist() for part in (probabilities, states, scores, attended.weights[0], context[0])),
        strict=True,
    )
    return Translated(
        run=name,
        source=source.text,
        target=written.text,
        word_dim=settings.embedding_dim,
        score=settings.attention,
        normalizer=settings.normalizer,
        read=[
            Read(word, state)
            for word, state in zip(
                [*map(visible, source.tokens), SPECIALS[END]], memory.states[0].tolist(), strict=True
            )
        ],
        written=[Written(*column) for column in columns],
        notes=[note for note in (source.note, written.note) if note],
    )


@contextmanager
def _calls(source: SourceAttention) -> Iterator[list[Any]]:
    """The arguments of each call of the source attention, in order: fixed and moving state, queries and inputs."""
    calls: list[Any] = []
    handle = source.register_forward_pre_hook(lambda module, arguments: calls.append(arguments))
    try:
        yield calls
    finally:
        handle.remove()
