"""How good captions are, and whether attention is on the named object: the pointing game."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.images.batches import CaptionBatch, object_words
from regard.data.images.captioned import Box, CaptionedImage, ImageSource
from regard.data.images.settings import CaptionedFolder, EmojiScenes, GlyphScenes
from regard.metrics.text import Measured, bleu
from regard.models.captioning.captioner import IMAGE
from regard.tasks.captioning.predictor import CaptioningPredictor
from regard.tasks.captioning.settings import TestedCaptions
from regard.tasks.core.config import check
from regard.tasks.core.evaluation import Evaluation

_TOGETHER = 100


@dataclass
class PointingGame:
    """The pointing game: of the words that name objects, how often the cell of most weight hit what.

    Attributes:
        words: how many there were.
        object_hits: the cell overlaps the named object's box (the measure `looked`).
        other_hits: it overlaps that of another object and not the named one's (`looked_elsewhere`).
        centre_hits: the cell's centre lies in the named object's box (`centre`).
        by_chance: the same three, of a cell drawn at random.
    """

    words: int = 0
    object_hits: float = 0.0
    other_hits: float = 0.0
    centre_hits: float = 0.0
    by_chance: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, weights: np.ndarray, boxes: Sequence[Box], named: int, size: int) -> None:
        """Count one map of weights `(rows, columns)` over an image of so many pixels a side."""
        overlaps = [overlapped(weights.shape, box, size) for box in boxes]
        others = np.logical_or.reduce([np.zeros(weights.shape, bool), *overlaps[:named], *overlaps[named + 1 :]])
        places = (overlaps[named], others & ~overlaps[named], centred(weights.shape, boxes[named], size))
        at = np.unravel_index(weights.argmax(), weights.shape)
        self.words += 1
        self.object_hits += bool(places[0][at])
        self.other_hits += bool(places[1][at])
        self.centre_hits += bool(places[2][at])
        first, second, third = (
            before + float(place.mean()) for before, place in zip(self.by_chance, places, strict=True)
        )
        self.by_chance = (first, second, third)

    def measures(self) -> dict[str, float]:
        """The three shares."""
        return {
            "looked": self.object_hits / self.words,
            "looked_elsewhere": self.other_hits / self.words,
            "centre": self.centre_hits / self.words,
        }

    def chances(self) -> dict[str, float]:
        """The same of cells drawn at random."""
        names = ("looked", "looked_elsewhere", "centre")
        return {name: value / self.words for name, value in zip(names, self.by_chance, strict=True)}


def overlapped(shape: tuple[int, ...], box: Box, size: int) -> np.ndarray:
    """Which cells of a grid over an image of `size` pixels a side share an area with a box."""
    left, top, right, bottom = box
    rows, columns = (np.arange(count + 1) * size / count for count in shape)
    down = (rows[:-1] < bottom) & (rows[1:] > top)
    across = (columns[:-1] < right) & (columns[1:] > left)
    return down[:, None] & across[None, :]


def centred(shape: tuple[int, ...], box: Box, size: int) -> np.ndarray:
    """Which cells have their centre in a box."""
    left, top, right, bottom = box
    rows, columns = ((np.arange(count) + 0.5) * size / count for count in shape)
    return ((rows >= top) & (rows < bottom))[:, None] & ((columns >= left) & (columns < right))[None, :]


@dataclass(frozen=True)
class Judged:
    """Captions of a model beside the right ones.

    Attributes:
        outputs: the captions of the model.
        right: of each image, one or more.
        looks: of the words that name objects, with the first right caption teacher-forced; None where no boxes are
            known.
    """

    outputs: list[str]
    right: list[tuple[str, ...]]
    looks: PointingGame | None

    @property
    def exact(self) -> float:
        """Share of the captions that are one of the right ones, character for character."""
        return sum(outputs in right for outputs, right in zip(self.outputs, self.right, strict=True)) / len(
            self.outputs
        )

    def bleu(self) -> Measured:
        """Corpus BLEU against all right captions of each image; one that is named twice counts as once."""
        most = max(len(right) for right in self.right)
        sets = [[right[number % len(right)] for right in self.right] for number in range(most)]
        return bleu(self.outputs, sets)


def judge(captioner: CaptioningPredictor, images: ImageSource, beam: int = 1) -> Judged:
    """Caption all images of a source and play the pointing game with the words that name objects."""
    outputs: list[str] = []
    right: list[tuple[str, ...]] = []
    looks = PointingGame()
    for start in range(0, len(images), _TOGETHER):
        chunk = [images[number] for number in range(start, min(start + _TOGETHER, len(images)))]
        outputs += [one.text for one in captioner.captions([one.pixels for one in chunk], beam)]
        right += [one.captions for one in chunk]
        _play(captioner, [one for one in chunk if one.named], looks)
    return Judged(outputs, right, looks if looks.words else None)


@torch.no_grad()
def _play(captioner: CaptioningPredictor, images: list[CaptionedImage], looks: PointingGame) -> None:
    if not images:
        return
    model, longest = captioner.model.eval(), captioner.settings.captions.longest
    ids = [captioner.tokenizer.encode(one.captions[0]).ids[:longest] for one in images]
    batch = CaptionBatch.of([one.pixels for one in images], ids).to(next(model.parameters()).device)
    memory = model.encode(batch.images)
    step = model.decoder.step(model.decoder.start(memory, len(batch)), batch.words_in)
    weights = step.attended[IMAGE].weights.unflatten(-1, memory.shape).float().cpu().numpy()
    for one, rows in zip(images, weights, strict=True):
        for word in object_words(one):
            if word.step < longest:
                boxes = [named.box for named in one.named]
                looks.add(rows[word.step], boxes, word.object, captioner.settings.data.size)


def measures_of(judged: Judged) -> dict[str, float]:
    """Quality of captions and of their attention, by name."""
    return {"exact": judged.exact, **(judged.looks.measures() if judged.looks else {})}


def evaluate_run(captioner: CaptioningPredictor, run: Path, test: dict[str, Any]) -> Evaluation:
    """Quality of captions and of their attention; also on pairs of objects that no synthetic scene of training had."""
    tested, data = check(TestedCaptions, test), captioner.settings.data
    made = not isinstance(data, CaptionedFolder) and data.held_out > 0
    judged = judge(captioner, captioner.images(tested.part, tested.seed), tested.beam)
    measures, signatures = measures_of(judged), {}
    rows = [_row("seen in training" if made else "all", judged)]
    if made:
        unseen = judge(captioner, captioner.images("unseen", tested.seed), tested.beam)
        measures["exact_unseen"] = unseen.exact
        rows.append(_row("never seen", unseen))
    if not isinstance(data, EmojiScenes | GlyphScenes):
        scored = judged.bleu()
        measures["bleu"], signatures["bleu"] = scored.value, scored.signature
    if judged.looks:
        rows.append(
            {"pairs": "a cell at random", "pictures": len(judged.outputs), "exact": None, **judged.looks.chances()}
        )
    return Evaluation(
        items=len(judged.outputs),
        unit="pictures",
        measures=measures,
        signatures=signatures,
        by="pairs",
        lengths=rows,
    )


def _row(name: str, judged: Judged) -> dict[str, Any]:
    return {"pairs": name, "pictures": len(judged.outputs), **measures_of(judged)}
