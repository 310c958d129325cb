"""The task of translation: pairs of sentences in, a translator out, of some kind, which shows what it attends to."""

from collections.abc import Callable
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from regard.attention.parts.normalize import normalizers
from regard.attention.parts.score import scores
from regard.data.translation.batches import TextBatch, TextBatches
from regard.data.translation.settings import ORIGINS
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, nearest
from regard.layers.objective import Objective
from regard.metrics.text import bleu, exact_match
from regard.models.seq2seq.guided import Guidable, guidance_of, guided_objective
from regard.models.seq2seq.settings import RecurrentSettings
from regard.models.seq2seq.translator_settings import TranslatorSettings
from regard.models.seq2seq.translators import build_translator
from regard.tasks.core.config import branch
from regard.tasks.core.metrics import mean_loss
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Task, missing_data
from regard.tasks.translation.alignment_view import Units, alignment_view
from regard.tasks.translation.data import Corpus, language_of, prepare_corpus
from regard.tasks.translation.evaluation import TranslationEvaluation, evaluate_run
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.settings import TranslationSettings
from regard.tasks.translation.view import heads_of_translation, steps_of_translation
from regard.views.view import View
from regard.vocabulary import SPECIALS

_SAMPLE = 200
"""Validation pairs that are translated, for BLEU and exact match; the loss is over all of them."""

_MONITORS: dict[str, Better] = {"loss": "min", "bleu": "max", "exact": "max"}

RECURRENT = RecurrentSettings().kind
"""The kind of a translator whose settings do not say it."""

_SHOWN = 5
"""Test sentences whose alignment is shown at the end of a recipe."""


def _loss(settings: TranslationSettings) -> Callable[[nn.Module, TextBatch], Objective]:
    smoothing, guided = settings.training.smoothing, settings.guided_alignment

    def guided_loss(model: nn.Module, batch: TextBatch) -> Objective:
        assert isinstance(model, Guidable)
        return guided_objective(model, batch, smoothing, guided)

    def loss(model: nn.Module, batch: TextBatch) -> Objective:
        objective: Objective = model(batch, smoothing)
        return objective

    return guided_loss if guided else loss


def _metrics(settings: TranslationSettings, corpus: Corpus) -> Callable[[Any], dict[str, float]]:
    """Loss per token (nats) over all held-out pairs, BLEU and exact match of greedy translations of some of them."""
    pairs, batches = corpus.held_out
    plan = batches.plan(0)
    sample = pairs[:: max(1, len(pairs) // _SAMPLE)][:_SAMPLE]
    references = [pair.target for pair in sample]
    language = language_of(references)
    greedy = settings.search.model_copy(update={"beam": 1, "n_best": 1, "sample": False})

    def metrics(model: Any) -> dict[str, float]:
        device = next(model.parameters()).device
        loss = mean_loss(model(batches.load(indices).to(device), 0.0) for indices in plan)
        translator = TranslationPredictor(model, corpus.parts, settings)
        translations = translator.translate([pair.source for pair in sample], search=greedy)
        texts = [translation.text for translation in translations]
        metrics = {
            "loss": loss,
            "bleu": bleu(texts, references, language=language).value,
            "exact": exact_match(texts, references).value,
        }
        if batches.links is not None:
            metrics["guidance"] = _guidance(model, batches, device)
        return metrics

    return metrics


def _guidance(model: Guidable, held_out: TextBatches, device: torch.device) -> float:
    """How far the attention is from the held-out pairs' links, in nats per linked token."""
    nats, linked = 0.0, 0
    for indices in held_out.plan(0):
        total, count = guidance_of(model, held_out.load(indices).to(device))
        nats, linked = nats + float(total), linked + int(count)
    return nats / max(1, linked)


def _problems(tree: dict[str, Any]) -> list[str]:
    """Names of parts and measures, known once they are loaded, and pairs, which need one of several settings."""
    lines = []
    named = branch(tree, "model")
    recurrent = named.get("kind", RECURRENT) == RECURRENT
    for key, registry, besides in (("attention", scores, ["none"]), ("normalizer", normalizers, [])):
        name = named.get(key)
        known = [*registry, *besides]
        if recurrent and isinstance(name, str) and name not in known:
            lines.append(f"model.{key}: no {registry.kind} is named {name!r}.{nearest(name, known)}")
    if not lines:
        lines += _part_problems(named)
    return lines + missing_data(
        tree,
        (*ORIGINS, "target"),
        "no pairs to train on. Give --source FILE --target FILE, or data.tsv=FILE, data.jsonl=FILE, "
        "or data.phrases.target=fr for the built-in phrases, data.reversal.count=50000 for digits to reverse",
    )


def _part_problems(model: dict[str, Any]) -> list[str]:
    """What only building the parts shows: options that a score or a normalizer does not take, widths that differ."""
    try:
        settings = TypeAdapter(TranslatorSettings).validate_python({"kind": RECURRENT, **model})
    except ValidationError:
        return []  # the settings report them themselves
    try:
        build_translator(settings, len(SPECIALS), len(SPECIALS))
    except ConfigError as error:
        return [f"model: {error}"]
    return []


def _view(
    translator: TranslationPredictor,
    text: str | None,
    *,
    target: str | None = None,
    search: SearchSettings | None = None,
    units: Units = "pieces",
    language: str = "en",
    posterior: bool = False,
    heads: bool = False,
    steps: bool = False,
) -> View:
    if text is None:
        raise ConfigError("say what to translate: regard show RUN TEXT")
    if heads + steps + posterior > 1 or (units == "words" and (heads or steps)):
        raise ConfigError(
            "--heads, --steps and --posterior are pictures of their own, by token; give only one, without --units words"
        )
    if heads or steps:
        made = heads_of_translation if heads else steps_of_translation
        return made(translator, text, target, search, language)
    return translator.view(text, target=target, search=search, units=units, language=language, posterior=posterior)


def _examples(translator: TranslationPredictor, evaluation: TranslationEvaluation) -> View | None:
    """The alignments of a few test sentences that fit a terminal."""
    some = [one for one in evaluation.translations if one.alignment is not None and 4 <= len(one.source_words) <= 12]
    return alignment_view([one.shown().matrix("words") for one in some[:_SHOWN]]) if some else None


TASK = Task(
    settings=TranslationSettings,
    data=prepare_corpus,
    build=TranslationPredictor.build,
    loss=_loss,
    metrics=_metrics,
    load=TranslationPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
    examples=_examples,
    monitors=_MONITORS,
)
