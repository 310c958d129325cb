"""Encoders of images: pixels become a grid of features, row by row.

The small network of convolutions has a receptive field of a few pixels around each cell, so that a feature is of what
lies there.
"""

from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.models.captioning.backbone import PretrainedEncoder
from regard.models.captioning.settings import Backbone, Convolutions, Features

Grid = Float[Tensor, "batch rows columns features"]


class SmallConvolutions(nn.Module):
    """3 × 3 convolutions, each followed by batch normalisation and ReLU.

    Args:
        settings: channels and strides.
    """

    def __init__(self, settings: Convolutions) -> None:
        super().__init__()
        widths = [3, *settings.channels]
        self.width = widths[-1]
        self.each = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
            for before, after, stride in zip(widths[:-1], settings.channels, settings.strides, strict=True)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in settings.channels)

    def forward(self, pixels: UInt8[Tensor, "batch height width 3"]) -> Grid:
        # Channels stay last in memory, as images lie and annotations are read: so a CPU convolves twice as fast.
        """The grid of features; the pixels, 0 to 255, are scaled to −1 to 1."""
        grid = (pixels.permute(0, 3, 1, 2).float() / 127.5).sub_(1)
        for convolution, norm in zip(self.each, self.norms, strict=True):
            grid = F.relu(norm(convolution(grid)))
        return grid.permute(0, 2, 3, 1)


class GivenFeatures(nn.Module):
    """Features that were made before: nothing is computed.

    Args:
        settings: how wide they are.
    """

    def __init__(self, settings: Features) -> None:
        super().__init__()
        self.width = settings.width

    def forward(self, features: Grid) -> Grid:
        """The features as they were given.

        Raises:
            ShapeError: they have another width.
        """
        if features.shape[-1] != self.width:
            raise ShapeError(f"the features are {features.shape[-1]} wide; this model was made for {self.width}")
        return features


def make_encoder(settings: Convolutions | Backbone | Features) -> Any:
    """The encoder that the settings name: images in, a `Grid` out, with its `width`."""
    if isinstance(settings, Backbone):
        return PretrainedEncoder(settings)
    return SmallConvolutions(settings) if isinstance(settings, Convolutions) else GivenFeatures(settings)
