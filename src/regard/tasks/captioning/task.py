"""The task of captioning: a picture in, a caption out, and a look for each of its words (Xu et al. 2015)."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.images.batches import CaptionBatch, CaptionBatches
from regard.data.images.captioned import ImageSource
from regard.data.images.features import ImageFeatures
from regard.data.images.folder import ImageFolder
from regard.data.images.settings import CaptionedFolder, EmojiScenes, GlyphScenes
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.models.captioning.backbone import load_backbone
from regard.models.captioning.captioner import Captioner
from regard.models.captioning.settings import Backbone
from regard.tasks.captioning.evaluation import Judged, judge
from regard.tasks.captioning.learning import from_captions, of_words
from regard.tasks.captioning.predictor import CaptioningPredictor, Seen, begin_from, pictures_of
from regard.tasks.captioning.settings import CaptioningSettings, TestedCaptions
from regard.tasks.captioning.view import captions_view
from regard.tasks.core.config import branch, check
from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.metrics import mean_loss
from regard.tasks.core.settings import Better
from regard.tasks.core.task import Prepared, Task
from regard.views.view import View

_MONITORS: dict[str, Better] = {
    "loss": "min",
    "exact": "max",
    "looked": "max",
    "looked_elsewhere": "min",
    "centre": "max",
}
_RIGHT = {"en": "The right caption is: {caption}", "zh": "正确的描述是：{caption}"}
_COUNTED = 2000
"""Made scenes whose captions make the vocabulary."""
_TOGETHER = 100


Captions = Prepared[Tokenizer, CaptionBatch, ImageSource]
"""The pictures of a run, and its words."""


def _data(settings: CaptioningSettings, saved: Path | None, say: Callable[[str], None]) -> Captions:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "captioning trains in one process: the norm of its annotations and the baseline of its rewards are of a "
            "whole batch, which several processes would share. Start it without torchrun"
        )
    training, own = pictures_of(settings, "training", settings.seed), settings.captions
    endless = not isinstance(settings.data, CaptionedFolder)
    texts = list(_texts(training))
    if saved is None:
        tokenizer = train_tokenizer("words", texts, own.vocabulary_size, lower=own.lower)
    else:
        tokenizer = load_tokenizer(saved)
    if long := sum(len(tokenizer.encode(text).ids) > own.longest for text in texts):
        say(
            f"{long} captions have more than {own.longest} words; what is behind them is not learned (captions.longest)"
        )
    batches = CaptionBatches(training, tokenizer, own.batch, own.longest, endless=endless, seed=settings.seed)
    return Prepared(tokenizer, batches, pictures_of(settings, "validation", settings.seed))


def _texts(training: ImageSource) -> Iterator[str]:
    """Captions that make the vocabulary: all of a folder, whose pictures need not be read; some of synthetic scenes."""
    source = training.images if isinstance(training, ImageFeatures) else training
    if isinstance(source, ImageFolder):
        return (text for number in range(len(source)) for text in source.captions(number))
    return (text for number in range(min(_COUNTED, len(training))) for text in training[number].captions)


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
    """Loss a word (nats), and what captions and looks are worth, on the pictures held out."""
    held_out, words = prepared.held_out, prepared.parts
    batches = CaptionBatches(held_out, words, _TOGETHER, settings.captions.longest, endless=False, seed=0)
    plan = batches.plan(0)

    def metrics(model: Captioner) -> dict[str, float]:
        device = next(model.parameters()).device
        with torch.no_grad():
            loss = mean_loss(of_words(model, batches.load(indices).to(device)) for indices in plan)
        return {"loss": loss, **_measures(judge(CaptioningPredictor(model, words, settings), held_out))}

    return metrics


def _measures(judged: Judged) -> dict[str, float]:
    return {"exact": judged.exact, **(judged.looks.measures() if judged.looks else {})}


def _evaluate(captioner: CaptioningPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """What captions and looks are worth; of synthetic scenes also where a pair is shown that no training scene had."""
    tested, data = check(TestedCaptions, test), captioner.settings.data
    made = not isinstance(data, CaptionedFolder) and data.held_out > 0
    judged = judge(captioner, captioner.pictures(tested.part, tested.seed), tested.beam)
    measures, signatures = _measures(judged), {}
    rows = [_row("seen in training" if made else "all", judged)]
    if made:
        unseen = judge(captioner, captioner.pictures("unseen", tested.seed), tested.beam)
        measures["exact_unseen"] = unseen.exact
        rows.append(_row("never seen", unseen))
    if not isinstance(data, EmojiScenes | GlyphScenes):
        scored = judged.bleu()
        measures["bleu"], signatures["bleu"] = scored.value, scored.signature
    if judged.looks:
        rows.append(
            {"pairs": "a cell at random", "pictures": len(judged.said), "exact": None, **judged.looks.chances()}
        )
    return Evaluation(
        items=len(judged.said),
        unit="pictures",
        measures=measures,
        signatures=signatures,
        by="pairs",
        lengths=rows,
    )


def _row(name: str, judged: Judged) -> dict[str, Any]:
    return {"pairs": name, "pictures": len(judged.said), **_measures(judged)}


def _view(captioner: CaptioningPredictor, text: str | None, *, seed: int | None = None, language: str = "en") -> View:
    if text is not None:
        if seed is not None:
            raise ConfigError("--seed is of a scene that is made; leave it out beside a picture")
        picture = captioner.see(Path(text))
        return captions_view([Seen(Path(text), picture, captioner.caption([picture])[0], None)], language)
    shown = captioner.pictures("test", seed or 0)[0]
    return captions_view(
        [Seen(Path(shown.place), shown.pixels, captioner.caption([shown.pixels])[0], None)],
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
    data=_data,
    build=_build,
    loss=_loss,
    metrics=_metrics,
    load=CaptioningPredictor.load,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
    examples=_examples,
    monitors=_MONITORS,
)
