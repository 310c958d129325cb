"""What sees a picture: pixels become a grid of features, row by row.

The small network of convolutions has no padding that tells where the border is but zeros, and each of its features
sees only a few pixels around its own cell, so that a feature is of what lies there.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.models.captioner_settings import Convolutions, Features

Grid = Float[Tensor, "batch rows columns width"]


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
            for before, after, stride in zip(widths, widths[1:], settings.strides, strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in settings.channels)
        self.to(memory_format=torch.channels_last)

    def forward(self, pixels: UInt8[Tensor, "batch height width_ 3"]) -> Grid:
        grid = scaled(pixels)
        for convolution, norm in zip(self.each, self.norms, strict=True):
            grid = F.relu(norm(convolution(grid)))
        return grid.permute(0, 2, 3, 1)


def scaled(pixels: UInt8[Tensor, "batch height width 3"]) -> Float[Tensor, "batch 3 height width"]:
    """Colours from −1 to 1, channels first as convolutions take them, in memory as they were."""
    return (pixels.permute(0, 3, 1, 2).float() / 127.5).sub_(1)


def make_encoder(settings: Convolutions | Features) -> Any:
    """The encoder that the settings name: pictures in, a `Grid` out, with its `width`."""
    return SmallConvolutions(settings)
