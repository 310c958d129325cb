"""The task of captioning: an image in, a caption out, with the attention of each of its words (Xu et al. 2015)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.images.batches import CaptionBatch, CaptionBatches
from regard.data.tokenizers.base import Tokenizer
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.models.captioning.backbone import load_backbone
from regard.models.captioning.captioner import Captioner
from regard.models.captioning.settings import Backbone
from regard.tasks.captioning.data import Captions, prepare_captions
from regard.tasks.captioning.evaluation import evaluate_run, judge, measures_of
from regard.tasks.captioning.learning import from_captions, of_words
from regard.tasks.captioning.predictor import CaptionedFile, CaptioningPredictor, begin_from
from regard.tasks.captioning.settings import CaptioningSettings
from regard.tasks.captioning.view import captions_view
from regard.tasks.core.config import branch
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import mean_loss
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Task
from regard.views.view import View

_MONITORS: dict[str, Better] = {
    "loss": "min",
    "exact": "max",
    "looked": "max",
    "looked_elsewhere": "min",
    "centre": "max",
}
_RIGHT = {"en": "The right caption is: {caption}", "zh": "正确的描述是：{caption}"}
_TOGETHER = 100


def _build(settings: CaptioningSettings, tokenizer: Tokenizer) -> Captioner:
    """The model that training begins with; a backbone's weights, and another run's, are put into it."""
    model, encoder = CaptioningPredictor.build(settings, tokenizer), settings.model.encoder
    if isinstance(encoder, Backbone) and encoder.weights is not None:
        load_backbone(model.encoder, encoder.weights)
    if settings.start_from is not None:
        begin_from(settings.start_from, model, tokenizer)
    return model


def _loss(settings: CaptioningSettings) -> Callable[[nn.Module, CaptionBatch], Objective]:
    return partial(from_captions, learning=settings.learning)


def _metrics(settings: CaptioningSettings, prepared: Captions) -> Callable[[Any], dict[str, float]]:
    """Loss per word (nats), and the quality of captions and of their attention, on the images held out."""
    held_out, words = prepared.held_out, prepared.parts
    batches = CaptionBatches(held_out, words, _TOGETHER, settings.captions.longest, endless=False, seed=0)
    plan = batches.plan(0)

    def metrics(model: Captioner) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            loss = mean_loss(of_words(model, batches.load(indices).to(device)) for indices in plan)
        return {"loss": loss, **measures_of(judge(CaptioningPredictor(model, words, settings), held_out))}

    return metrics


def _view(captioner: CaptioningPredictor, text: str | None, *, seed: int | None = None, language: str = "en") -> View:
    if text is not None:
        if seed is not None:
            raise ConfigError("--seed chooses a synthetic scene; leave it out beside an image")
        image = captioner.image_of(Path(text))
        return captions_view([CaptionedFile(Path(text), image, captioner.caption([image])[0], None)], language)
    shown = captioner.images("test", seed or 0)[0]
    return captions_view(
        [CaptionedFile(Path(shown.place), shown.pixels, captioner.caption([shown.pixels])[0], None)],
        language,
        [one.box for one in shown.named],
        [_RIGHT.get(language, _RIGHT["en"]).format(caption=shown.captions[0])],
    )


def _examples(captioner: CaptioningPredictor, evaluation: Evaluation) -> View:
    return _view(captioner, None)


def _problems(tree: dict[str, Any]) -> list[str]:
    training, model, learning, captions = (branch(tree, name) for name in ("training", "model", "learning", "captions"))
    features = branch(model, "encoder").get("kind") == "features"
    wrong = []
    if training.get("smoothing"):
        wrong.append("training.smoothing: words are learned as they are, so leave it 0")
    if features and learning.get("grey"):
        wrong.append("learning.grey: features have no colours; leave it 0")
    if features != bool(captions.get("features")):
        wrong.append("captions.features: a folder of features goes with model.encoder.kind=features; give both or none")
    return wrong


TASK = Task(
    settings=CaptioningSettings,
    data=prepare_captions,
    build=_build,
    loss=_loss,
    metrics=_metrics,
    load=CaptioningPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=evaluate_run,
    examples=_examples,
    monitors=_MONITORS,
)
