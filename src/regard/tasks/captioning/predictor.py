"""A trained model that captions pictures, with where it looked before each word."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

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
from regard.tasks.core.runs import open_run
from regard.tasks.experiments.experiment import DATA
from regard.training.run.checkpoint import load_weights
from regard.vocabulary import BEGIN, END, PADDING, SPECIALS, UNKNOWN

END_WORD = SPECIALS[END]
"""Stands last in a caption's words where it ended by itself; no text spells it."""


@dataclass(frozen=True)
class Caption:
    """What a model said of a picture.

    Attributes:
        text: the caption.
        words: its words, and the end mark where it ended by itself.
        weights: where it looked before each of them, `(words, rows, columns)`; each look's sum is 1.
        probability: of the whole caption, as the model finds it.
    """

    text: str
    words: list[str]
    weights: np.ndarray
    probability: float


@dataclass(frozen=True)
class Seen:
    """What came of a file.

    Attributes:
        path: of the file.
        picture: as the model sees it: `(size, size, 3)`, uint8, or features; None where it cannot be read.
        caption: None where it cannot be read.
        fault: why it cannot be read, or None.
    """

    path: Path
    picture: np.ndarray | None
    caption: Caption | None
    fault: DataError | None


class PictureCaptioner:
    """A model, its words and its settings.

    Args:
        model: in any mode; it is put into eval mode to caption.
        tokenizer: of its words.
        settings: of its run.
    """

    def __init__(self, model: Captioner, tokenizer: Tokenizer, settings: CaptioningSettings) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings

    @torch.no_grad()
    def caption(self, pictures: Sequence[np.ndarray], beam: int = 1) -> list[Caption]:
        """Caption some pictures together.

        Args:
            pictures: `(size, size, 3)` of the run's size, uint8.
            beam: hypotheses kept at each step; 1 is greedy.

        Raises:
            ConfigError: the beam is wider than the vocabulary, and than 128.
        """
        settings = SearchSettings(beam=beam)
        check_beam(settings, len(self.tokenizer))
        if not pictures:
            return []
        self.model.eval()
        memory = self.model.encode(torch.from_numpy(np.stack(pictures)).to(next(self.model.parameters()).device))
        found = search(
            self.model.decoder,
            memory,
            len(pictures),
            begin=BEGIN,
            end=END,
            settings=settings,
            limits=[self.settings.captions.longest + 1] * len(pictures),
            forbidden=(PADDING, UNKNOWN, BEGIN),
        )
        return [self._told(best, memory.shape) for best, *_ in found]

    def pictures(self, part: Part, seed: int) -> ImageSource:
        """A part of the run's own source; pixels are features where the run is made for them."""
        return pictures_of(self.settings, part, seed)

    def see(self, path: Path) -> np.ndarray:
        """A file's picture in the size of the run, or its features where the run is made for them.

        Raises:
            DataError: the file is neither; it is named.
        """
        encoder = self.settings.model.encoder
        if isinstance(encoder, Features):
            return load_features(path, encoder.width)
        return load_image(path, self.settings.data.size).pixels

    def stream(self, paths: Iterable[Path], beam: int = 1, together: int = 32) -> Iterator[Seen]:
        """What each file shows and its caption, or what is wrong with it, in order.

        Args:
            paths: of pictures.
            beam: see `caption`.
            together: captioned at once; it never changes a caption.
        """
        rest = iter(paths)
        while chunk := list(islice(rest, together)):
            seen: dict[int, np.ndarray] = {}
            faults: dict[int, DataError] = {}
            for place, path in enumerate(chunk):
                try:
                    seen[place] = self.see(path)
                except DataError as error:
                    faults[place] = error
            said = dict(zip(seen, self.captions(list(seen.values()), beam), strict=True))
            for place, path in enumerate(chunk):
                yield Seen(path, seen.get(place), said.get(place), faults.get(place))

    def captions(self, pictures: Sequence[np.ndarray], beam: int = 1) -> list[Caption]:
        """Caption pictures that need not be of one size, as features are not."""
        told: list[Caption] = []
        for _, some in groupby(pictures, lambda one: one.shape):
            told += self.caption(list(some), beam)
        return told

    def _told(self, best: Hypothesis, shape: tuple[int, int]) -> Caption:
        assert best.alignment is not None
        words = [*self.tokenizer.tokens(best.ids), *([END_WORD] if best.finished else [])]
        weights = best.alignment.numpy().reshape(len(words), *shape)
        return Caption(self.tokenizer.decode(best.ids), words, weights, float(np.exp(best.log_probability)))


def pictures_of(settings: CaptioningSettings, part: Part, seed: int) -> ImageSource:
    """A part of a run's source; pixels are features where the run is made for them.

    Raises:
        ConfigError: features are wanted and no folder of them is named, or the other way round.
    """
    encoder, folder = settings.model.encoder, settings.captions.features
    if isinstance(encoder, Features) != (folder is not None):
        raise ConfigError("captions.features and model.encoder.kind=features go together: a folder, and a model for it")
    made = image_source(settings.data, seed, part)
    return ImageFeatures(made, folder, encoder.width) if isinstance(encoder, Features) and folder else made


def build(settings: CaptioningSettings, vocabulary: int) -> Captioner:
    """The model that the settings say, with fresh weights."""
    return Captioner(settings.model, vocabulary)


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


def load_captioner(folder: str | Path) -> PictureCaptioner:
    """The captioner of a run folder, with its best weights.

    Raises:
        RunError: there is no run, or no weights yet, or they are damaged.
        ConfigError: the run's settings cannot be used.
    """
    run = open_run(folder)
    settings = check(CaptioningSettings, run.read_config())
    tokenizer = load_tokenizer(run.tokenizers)
    model: Any = build(settings, len(tokenizer))
    load_weights(model, run.weights)
    return PictureCaptioner(model, tokenizer, settings)
