"""A trained model that captions images, with its attention over the image at each word."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from regard.data.images.captioned import ImageSource, Part
from regard.data.images.features import ImageFeatures, load_features
from regard.data.images.image_file import load_image
from regard.data.images.sources import image_source
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.factory import load_tokenizer
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, DataError
from regard.models.captioning.captioner import Captioner
from regard.models.captioning.settings import Features
from regard.tasks.captioning.settings import CaptioningSettings
from regard.tasks.core.beam import check_beam
from regard.tasks.core.config import check
from regard.tasks.core.predictor import StreamPredictor, inference
from regard.tasks.core.runs import open_run
from regard.tasks.experiments.experiment import DATA
from regard.training.run.checkpoint import load_weights
from regard.vocabulary import BEGIN, END, PADDING, SPECIALS, UNKNOWN

END_WORD = SPECIALS[END]
"""Stands last in a caption's words where it ended by itself; no text spells it."""


@dataclass(frozen=True)
class Caption:
    """The caption that a model generated for an image.

    Attributes:
        text: the caption.
        words: its words, and EOS where it ended by itself.
        weights: over the image for each of them, `(words, rows, columns)`; those of one word sum to 1.
        probability: of the whole caption, as the model finds it.
    """

    text: str
    words: list[str]
    weights: np.ndarray
    probability: float


@dataclass(frozen=True)
class CaptionedFile:
    """A file of an image, and its caption.

    Attributes:
        path: of the file.
        image: as the model reads it: `(size, size, 3)`, uint8, or features; None where it cannot be read.
        caption: None where it cannot be read.
        fault: why it cannot be read, or None.
    """

    path: Path
    image: np.ndarray | None
    caption: Caption | None
    fault: DataError | None


class CaptioningPredictor(
    StreamPredictor[CaptioningSettings, Tokenizer, Captioner, Path, CaptionedFile, CaptionedFile]
):
    """A captioner and its words."""

    settings_type = CaptioningSettings

    @classmethod
    def load_parts(cls, folder: Path) -> Tokenizer:
        """Its words."""
        return load_tokenizer(folder)

    @classmethod
    def build(cls, settings: CaptioningSettings, parts: Tokenizer) -> Captioner:
        """A captioner with fresh weights."""
        return Captioner(settings.model, len(parts))

    @property
    def tokenizer(self) -> Tokenizer:
        """Of its words."""
        return self.parts

    @inference
    def caption(self, images: Sequence[np.ndarray], beam: int = 1) -> list[Caption]:
        """Caption some images together.

        Args:
            images: `(size, size, 3)` of the run's size, uint8.
            beam: hypotheses kept at each step; 1 is greedy.

        Raises:
            ConfigError: the beam is wider than the vocabulary, and than 128.
        """
        settings = SearchSettings(beam=beam)
        check_beam(settings, len(self.tokenizer))
        if not images:
            return []
        memory = self.model.encode(torch.from_numpy(np.stack(images)).to(self.device))
        found = search(
            self.model.decoder,
            memory,
            len(images),
            begin=BEGIN,
            end=END,
            settings=settings,
            limits=[self.settings.captions.longest + 1] * len(images),
            forbidden=(PADDING, UNKNOWN, BEGIN),
        )
        return [self._caption_of(best, memory.shape) for best, *_ in found]

    def images(self, part: Part, seed: int) -> ImageSource:
        """A part of the run's own source; with features in place of pixels where the run uses them."""
        return images_of(self.settings, part, seed)

    def image_of(self, path: Path) -> np.ndarray:
        """A file's image in the size of the run, or its features where the run uses them.

        Raises:
            DataError: the file is neither; it is named.
        """
        encoder = self.settings.model.encoder
        if isinstance(encoder, Features):
            return load_features(path, encoder.width)
        return load_image(path, self.settings.data.size).pixels

    def stream(
        self, items: Iterable[Path], *, beam: int = 1, batch: int = 32, chunk: int | None = None, first: int = 1
    ) -> Iterator[CaptionedFile]:
        """The image and the caption of each file, or what is wrong with it, in order.

        Args:
            items: paths of images.
            beam: see `caption`.
            batch: images captioned at once; it never changes a caption.
            chunk: files read before the first caption comes; a batch by default.
            first: the number of the first file.
        """
        yield from self.in_batches(self.read_all(items, first), partial(self.answer, beam=beam), batch, chunk or batch)

    def read(self, given: Path, line: int = 1) -> CaptionedFile:
        """A file's image, or why it cannot be read."""
        try:
            return CaptionedFile(given, self.image_of(given), None, None)
        except DataError as error:
            return CaptionedFile(given, None, None, error)

    def length(self, item: CaptionedFile) -> int:
        """Images are captioned in the order in which they come; 0 for a file that cannot be read."""
        return 0 if item.image is None else 1

    def answer(self, items: list[CaptionedFile], beam: int = 1) -> list[CaptionedFile]:
        """The images of a batch with their captions."""
        captions = self.captions([one.image for one in items if one.image is not None], beam)
        return [replace(one, caption=caption) for one, caption in zip(items, captions, strict=True)]

    def blank(self, item: CaptionedFile) -> CaptionedFile:
        """The file with what is wrong with it."""
        return item

    def captions(self, images: Sequence[np.ndarray], beam: int = 1) -> list[Caption]:
        """Caption images that need not be of one size, as features are not."""
        found: list[Caption] = []
        for _, some in groupby(images, lambda one: one.shape):
            found += self.caption(list(some), beam)
        return found

    def _caption_of(self, best: Hypothesis, shape: tuple[int, int]) -> Caption:
        assert best.alignment is not None
        words = [*self.tokenizer.tokens(best.ids), *([END_WORD] if best.finished else [])]
        weights = best.alignment.numpy().reshape(len(words), *shape)
        return Caption(self.tokenizer.decode(best.ids), words, weights, float(np.exp(best.log_probability)))


def images_of(settings: CaptioningSettings, part: Part, seed: int) -> ImageSource:
    """A part of a run's source; with features in place of pixels where the run uses them.

    Raises:
        ConfigError: features are wanted and no folder of them is named, or the other way round.
    """
    encoder, folder = settings.model.encoder, settings.captions.features
    if isinstance(encoder, Features) != (folder is not None):
        raise ConfigError("captions.features and model.encoder.kind=features go together: a folder, and a model for it")
    made = image_source(settings.data, seed, part)
    return ImageFeatures(made, folder, encoder.width) if isinstance(encoder, Features) and folder else made


def begin_from(folder: str | Path, model: Captioner, tokenizer: Tokenizer) -> None:
    """Put the best weights of another run into a model, such as soft attention's where hard is to be learned.

    Raises:
        RunError: there is no run of captioning, or no weights yet, or they are of a model of other sizes.
        ConfigError: it knows other words.
    """
    if DATA in str(folder):
        raise ConfigError(f"start_from: a trained run is to be named here: --data RUN puts it in the place of {DATA}")
    run = open_run(folder)
    check(CaptioningSettings, run.read_config())
    if load_tokenizer(run.tokenizers).fingerprint() != tokenizer.fingerprint():
        raise ConfigError(f"start_from: {folder} was trained on other words; the same data and captions are expected")
    load_weights(model, run.weights)
