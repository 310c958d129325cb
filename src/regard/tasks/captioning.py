"""The task of captioning: a picture in, a caption out, and a look for each of its words (Xu et al. 2015)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.captions import CaptionBatch, CaptionBatches
from regard.data.images.captioned import Pictures
from regard.data.images.settings import CaptionedFolder
from regard.data.tokenizers import Tokenizer, load_tokenizer, train_tokenizer
from regard.errors import ConfigError
from regard.layers.objective import Objective
from regard.models.captioner import Captioner
from regard.tasks.captioner import PictureCaptioner, Seen, begin_from, build, load_captioner, pictures_of
from regard.tasks.captioning_learning import from_captions, of_words
from regard.tasks.captioning_measures import describe
from regard.tasks.captioning_settings import CaptioningSettings, TestedCaptions
from regard.tasks.captioning_view import captions_view
from regard.tasks.config import check
from regard.tasks.evaluation import Evaluation
from regard.tasks.settings import Better
from regard.tasks.task import Task
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


@dataclass(frozen=True)
class Captions:
    """The pictures of a run, and its words."""

    tokenizer: Tokenizer
    batches: CaptionBatches
    held_out: Pictures

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        self.tokenizer.save(folder)


def _data(settings: CaptioningSettings, saved: Path | None, say: Callable[[str], None]) -> Captions:
    training, own = pictures_of(settings, "training", settings.seed), settings.captions
    endless = not isinstance(settings.data, CaptionedFolder)
    if saved is None:
        numbers = range(min(_COUNTED, len(training)) if endless else len(training))
        texts = (text for number in numbers for text in training[number].captions)
        tokenizer = train_tokenizer("words", texts, own.vocabulary_size, lower=own.lower)
    else:
        tokenizer = load_tokenizer(saved)
    batches = CaptionBatches(training, tokenizer, own.batch, own.longest, endless=endless, seed=settings.seed)
    return Captions(tokenizer, batches, pictures_of(settings, "validation", settings.seed))


def _model(settings: CaptioningSettings, prepared: Captions) -> Captioner:
    model = build(settings, len(prepared.tokenizer))
    if settings.start_from is not None:
        begin_from(settings.start_from, model, prepared.tokenizer)
    return model


def _loss(settings: CaptioningSettings) -> Callable[[nn.Module, CaptionBatch], Objective]:
    return partial(from_captions, learning=settings.learning)


def _metrics(settings: CaptioningSettings, prepared: Captions) -> Callable[[Any], dict[str, float]]:
    """Loss a word (nats), and what captions and looks are worth, on the pictures held out."""
    batches = CaptionBatches(
        prepared.held_out, prepared.tokenizer, 100, settings.captions.longest, endless=False, seed=0
    )
    kept = [
        batches.load(list(range(at, min(at + 100, len(prepared.held_out)))))
        for at in range(0, len(prepared.held_out), 100)
    ]

    def metrics(model: Captioner) -> dict[str, float]:
        with torch.no_grad():
            told = [of_words(model, batch.to(next(model.parameters()).device)) for batch in kept]
        captioner = PictureCaptioner(model, prepared.tokenizer, settings)
        seen = describe(captioner, prepared.held_out)
        loss = sum(float(one.total) for one in told) / sum(int(one.count) for one in told)
        return {"loss": loss, "exact": seen.exact, **(seen.looks.measures() if seen.looks else {})}

    return metrics


def _evaluate(captioner: PictureCaptioner, run: Path, test: dict[str, Any]) -> Evaluation:
    tested, data = check(TestedCaptions, test), captioner.settings.data
    seen = describe(captioner, captioner.pictures(tested.part, tested.seed), tested.beam)
    measures = {"exact": seen.exact}
    rows = [
        {
            "pairs": "seen in training",
            "pictures": len(seen.said),
            "exact": seen.exact,
            **(seen.looks.measures() if seen.looks else {}),
        }
    ]
    if not isinstance(data, CaptionedFolder) and data.held_out:
        other = describe(captioner, captioner.pictures("unseen", tested.seed), tested.beam)
        measures["exact_unseen"] = other.exact
        rows.append(
            {
                "pairs": "never seen",
                "pictures": len(other.said),
                "exact": other.exact,
                **(other.looks.measures() if other.looks else {}),
            }
        )
    if seen.looks:
        measures.update(seen.looks.measures())
    return Evaluation(
        items=len(seen.said),
        unit="pictures",
        measures=measures,
        baselines={},
        by="pairs",
        lengths=rows,
    )


def _view(captioner: PictureCaptioner, text: str | None, *, seed: int | None = None, language: str = "en") -> View:
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


def _examples(captioner: PictureCaptioner, evaluation: Evaluation) -> View:
    return _view(captioner, None)


def _problems(tree: dict[str, Any]) -> list[str]:
    return []


TASK = Task(
    name="captioning",
    verb="caption",
    data=_data,
    model=_model,
    loss=_loss,
    metrics=_metrics,
    predict=load_captioner,
    view=_view,
    problems=_problems,
    evaluate=_evaluate,
    measures=CaptioningSettings.measures,
    examples=_examples,
    monitors=_MONITORS,
)
