"""Where images with captions come from. No torch here: the command line reads this file first."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

CaptionLanguage = Literal["en", "fr", "zh"]

MOST_HELD_OUT = 56
"""Of the 112 pairs of a colour and an object; a model must meet every colour and every object."""

EVERYDAY = (
    "dog", "cat", "rabbit", "frog", "penguin", "fish", "butterfly", "snail", "turtle", "octopus",
    "apple", "banana", "watermelon", "strawberry", "carrot", "bread", "lemon", "pizza", "birthday", "coffee",
    "car", "bus", "bike", "rocket", "helicopter", "boat", "house", "tent", "umbrella", "key",
    "book", "scissors", "alarm_clock", "guitar", "soccer", "gift", "cactus", "sunflower", "mushroom", "crown",
)  # fmt: skip
"""Forty emoji that look and are named differently, by their short names."""


class _Scenes(BaseModel):
    """What all synthetic scenes have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: int = Field(default=64, ge=32, le=1024, description="Pixels of a side of the square canvas.")
    fewest: int = Field(default=2, ge=2, le=3, description="Objects of a scene at least.")
    most: int = Field(default=3, ge=2, le=3, description="Objects of a scene at most.")
    language: CaptionLanguage = Field(default="en", description="Language of the captions.")
    scenes: int = Field(default=20_000, ge=1, description="Scenes per epoch; each epoch has new ones.")
    validation: int = Field(default=500, ge=1, description="Scenes held out of training.")
    test: int = Field(default=1000, ge=1, description="Scenes of a test, and of one on pairs never seen.")

    @model_validator(mode="after")
    def _possible(self) -> "_Scenes":
        if self.fewest > self.most:
            raise ValueError(f"fewest ({self.fewest}) must not be above most ({self.most})")
        return self


class GlyphScenes(_Scenes):
    """Glyphs of a font in colours on a light canvas, such as "red heart above blue umbrella"."""

    kind: Literal["scenes"] = "scenes"
    held_out: int = Field(
        default=14, ge=0, le=MOST_HELD_OUT, description="Pairs of a colour and an object that no training scene has."
    )


class EmojiScenes(_Scenes):
    """Emoji of a sheet on a light canvas, such as "dog face left of umbrella", named as Unicode's CLDR names them."""

    kind: Literal["emoji"] = "emoji"
    sheet: Path = Field(description="Image of all emoji in cells, as emoji-datasource packages have it.")
    metadata: Path = Field(description="The package's emoji.json: which emoji stands in which cell.")
    names: Path = Field(description="CLDR's annotations.json in the language of the captions.")
    cell: int = Field(default=64, ge=8, description="Pixels of a side of an emoji on the sheet.")
    border: int = Field(default=1, ge=0, description="Pixels around each emoji.")
    emoji: tuple[str, ...] = Field(
        default=EVERYDAY,
        min_length=1,
        description="Short names of the metadata, or its subcategories, such as animal-mammal.",
    )
    held_out: int = Field(default=40, ge=0, description="Pairs of emoji that no training scene has together.")


class CaptionedFolder(BaseModel):
    """A folder of images and a JSON file of captions, in the layout of the public COCO and Flickr splits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["folder"] = "folder"
    folder: Path = Field(description="Folder of the images.")
    captions: Path = Field(
        description='JSON of {"images": [{"filename", "filepath"?, "split", "sentences": [{"raw" or "tokens"}]}]}.'
    )
    size: int = Field(default=64, ge=8, le=1024, description="Pixels of a side of the square that an image is put in.")


ImageSettings = Annotated[GlyphScenes | EmojiScenes | CaptionedFolder, Field(discriminator="kind")]
