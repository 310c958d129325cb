"""Images and their captions as a run needs them: vocabulary, batches, and those that are held out."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.data.images.batches import CaptionBatch, CaptionBatches
from regard.data.images.captioned import ImageSource
from regard.data.images.features import ImageFeatures
from regard.data.images.folder import ImageFolder
from regard.data.images.settings import CaptionedFolder
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer, train_tokenizer
from regard.errors import ConfigError
from regard.tasks.captioning.predictor import images_of
from regard.tasks.captioning.settings import CaptioningSettings
from regard.tasks.core.task import Prepared

_COUNTED = 2000
"""Synthetic scenes whose captions make the vocabulary."""


Captions = Prepared[Tokenizer, CaptionBatch, ImageSource]
"""The images of a run, and its words."""


def prepare_captions(settings: CaptioningSettings, saved: Path | None, say: Callable[[str], None]) -> Captions:
    """Read or draw the images, learn or load the vocabulary, and make batches.

    Args:
        settings: of the run.
        saved: where the run keeps its vocabulary, if it has one already.
        say: called with a message on captions that are cut.

    Raises:
        ConfigError: there are several processes.
        DataError: an image or the file of captions cannot be read.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "captioning trains in one process: the norm of its annotations and the baseline of its rewards are of a "
            "whole batch, which several processes would share. Start it without torchrun"
        )
    training, own = images_of(settings, "training", settings.seed), settings.captions
    endless = not isinstance(settings.data, CaptionedFolder)
    texts = list(_texts(training))
    if saved is None:
        tokenizer = train_tokenizer("words", texts, own.vocabulary_size, lower=own.lower)
    else:
        tokenizer = load_tokenizer(saved)
    if long := sum(len(tokenizer.encode(text).ids) > own.longest for text in texts):
        say(f"{long} captions have more than {own.longest} words; the rest is not learned (captions.longest)")
    batches = CaptionBatches(training, tokenizer, own.batch, own.longest, endless=endless, seed=settings.seed)
    return Prepared(tokenizer, batches, images_of(settings, "validation", settings.seed))


def _texts(training: ImageSource) -> Iterator[str]:
    """Captions that make the vocabulary: all of a folder, whose images need not be read; some of synthetic scenes."""
    source = training.images if isinstance(training, ImageFeatures) else training
    if isinstance(source, ImageFolder):
        return (text for number in range(len(source)) for text in source.captions(number))
    return (text for number in range(min(_COUNTED, len(training))) for text in training[number].captions)
