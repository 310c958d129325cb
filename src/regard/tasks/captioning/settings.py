"""The settings of a run that captions images, and of its tests."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.data.images.settings import GlyphScenes, ImageSettings
from regard.models.captioning.settings import CaptionerSettings
from regard.tasks.core.settings import Better, RunSettings


class CaptionSettings(BaseModel):
    """How captions are cut and batched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vocabulary_size: int = Field(
        default=10_000, ge=5, description="Words at most, with the four special ones; the most frequent are kept."
    )
    lower: bool = Field(default=False, description="Fold upper case to lower case.")
    longest: int = Field(default=30, ge=1, description="Words of a caption at most, in training and in use.")
    features: Path | None = Field(
        default=None,
        description="Folder of features made before, one .npy or .safetensors file per image, named as the image is; "
        "with model.encoder.kind=features.",
    )
    batch: int = Field(default=64, ge=1, description="Images of a batch.")


class LearningSettings(BaseModel):
    """What is added to −log p of the words (Xu et al. 2015, eq. 14 and §4.1)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    words: float = Field(
        default=0.0,
        ge=0,
        description="Weight of a term by which single cells learn to detect the caption's words. It replaces "
        "pretraining of the encoder.",
    )
    grey: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the images that the word detectors also get without colours, so that things are "
        "recognized by their shapes.",
    )
    evenly: float = Field(
        default=0.0,
        ge=0,
        description="λ of the doubly stochastic term: every cell should be attended to once in all, Σ_t α_ti = 1.",
    )
    reward: float = Field(default=1.0, ge=0, description="λ_r of REINFORCE, for model.look=sample.")
    entropy: float = Field(
        default=0.0, ge=0, description="λ_e: weight of the entropy of the attention (hard attention)."
    )
    expected: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of the images that use the weighted mean of the cells all the same (hard attention).",
    )


class TestedCaptions(BaseModel):
    """Which images a run is tested on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: Literal["validation", "test"] = Field(default="test", description="Which part of the run's own source.")
    beam: int = Field(default=1, ge=1, description="Hypotheses kept; 1 is greedy.")
    seed: int = Field(default=0, ge=0, description="Draws synthetic scenes, which no training has seen by number.")


class CaptioningSettings(RunSettings):
    """From an image to a caption."""

    verb: ClassVar[str] = "caption"
    takes_a_file: ClassVar[bool] = True
    tests: ClassVar[type[BaseModel]] = TestedCaptions
    measures: ClassVar[dict[str, Better]] = {
        "exact": "max",
        "exact_unseen": "max",
        "bleu": "max",
        "looked": "max",
        "looked_elsewhere": "min",
        "centre": "max",
    }

    task: Literal["captioning"] = Field("captioning", description="What the model is for.")
    data: ImageSettings = Field(default=GlyphScenes(), description="The images.")
    captions: CaptionSettings = Field(default=CaptionSettings(), description="Their captions.")
    model: CaptionerSettings = Field(default=CaptionerSettings(), description="What learns to write them.")
    learning: LearningSettings = Field(default=LearningSettings(), description="What it learns from besides words.")
    start_from: Path | None = Field(
        default=None, description="Begin with the weights of this run of the same images, such as a soft one."
    )


SETTINGS = CaptioningSettings
