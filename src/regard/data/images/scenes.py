"""Synthetic scenes: two or three objects on a light canvas, each scene drawn by its number."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from regard.data.chance import Chance
from regard.data.images.caption_text import Phrase, caption
from regard.data.images.captioned import CaptionedImage, NamedObject, Part
from regard.data.images.cutout import Cutout
from regard.data.images.placement import LARGEST_SHARE, place_objects
from regard.data.images.settings import EmojiScenes, GlyphScenes
from regard.errors import ConfigError

_SMALLEST = 0.26  # of the canvas's side, that the longer side of an object has


class Object(NamedTuple):
    """An object of a scene: how it is named, and its stamp with a longer side of that many pixels."""

    phrase: Phrase
    cutout: Callable[[int], Cutout]


@runtime_checkable
class SceneObjects(Protocol):
    """The objects that scenes are made of.

    Attributes:
        from_left: whether a scene's objects are named from left to right, or in the order in which they are chosen.
    """

    from_left: bool

    def choose(self, count: int, chance: Chance, *, unseen: bool) -> list[Object]:
        """Different objects, with a pair held out of training or without any."""
        ...


class SyntheticScenes:
    """Follows `captioned.ImageSource`.

    Args:
        cast: which objects there are.
        settings: sizes and numbers of scenes.
        seed: draws them, beside their numbers.
        part: each draws differently for one seed.

    Raises:
        ConfigError: unseen pairs are asked for where none are held out.
    """

    def __init__(self, scene_objects: SceneObjects, settings: GlyphScenes | EmojiScenes, seed: int, part: Part) -> None:
        if part == "unseen" and not settings.held_out:
            raise ConfigError("no pairs are held out of training (held_out=0), so there are no unseen ones to test")
        self.scene_objects, self.settings, self.seed, self.part = scene_objects, settings, seed, part

    def __len__(self) -> int:
        counts = {"training": self.settings.scenes, "validation": self.settings.validation}
        return counts.get(self.part, self.settings.test)

    def __getitem__(self, number: int) -> CaptionedImage:
        """The scene of that number, drawn.

        Raises:
            IndexError: the number is negative.
        """
        settings = self.settings
        if number < 0:
            raise IndexError(f"scenes are numbered from 0 on, but {number} was asked for")
        chance = Chance(settings.kind, self.part, self.seed, number)
        count = settings.fewest + chance.below(settings.most - settings.fewest + 1)
        objects = self.scene_objects.choose(count, chance, unseen=self.part == "unseen")
        largest, smallest = math.isqrt(int(LARGEST_SHARE * settings.size**2)), round(_SMALLEST * settings.size)
        placement = None
        while placement is None:
            cutouts = [one.cutout(smallest + chance.below(largest - smallest + 1)) for one in objects]
            sides = [(one.alpha.shape[1], one.alpha.shape[0]) for one in cutouts]
            placement = place_objects(sides, settings.size, chance, from_left=self.scene_objects.from_left)
        canvas = _background(settings.size, chance)
        text, spans = caption([objects[one].phrase for one in placement.order], placement.relations, settings.language)
        named = []
        for one, (left, top), span in zip(placement.order, placement.corners, spans, strict=True):
            cutout, (wide, tall) = cutouts[one], sides[one]
            under = canvas[top : top + tall, left : left + wide]
            under += cutout.alpha * (cutout.color - under)
            named.append(NamedObject(*span, (float(left), float(top), float(left + wide), float(top + tall))))
        return CaptionedImage(np.rint(canvas).astype(np.uint8), (text,), tuple(named), f"{self.part} scene {number}")


def _background(size: int, chance: Chance) -> np.ndarray:
    """A light, slightly tinted canvas, a little darker towards one side."""
    light = 222 + 22 * chance()
    tint = np.array([light + 8 * chance() - 4 for _ in range(3)], np.float32)
    ramp = np.linspace(-0.5, 0.5, size, dtype=np.float32)
    across, down = (np.float32(12 * chance() - 6) for _ in range(2))
    return (across * ramp[None, :, None] + down * ramp[:, None, None]) + tint
