"""Encoders of sets of points: one vector for each point, and one for the whole set."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.modules.heads import SelfHeads
from regard.layers.recurrent import Recurrence
from regard.layers.transformer.block import Block
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Stack
from regard.models.pointing.settings import LSTMEncoderSettings, TransformerEncoderSettings

Encoded = tuple[Float[Tensor, "batch points width"], Float[Tensor, "batch width"]]


class LSTMSetEncoder(nn.Module):
    """An LSTM from the first point to the last; the set's vector is that of its last point.

    Padding lies behind the points, where an LSTM that reads forwards has not been yet.
    """

    def __init__(self, settings: LSTMEncoderSettings, width: int) -> None:
        super().__init__()
        self.recurrence = Recurrence("lstm", width, width, settings.layers)

    def forward(
        self,
        inputs: Float[Tensor, "batch points width"],
        lengths: Int[Tensor, " batch"],
        real: Bool[Tensor, "batch points"],
    ) -> Encoded:
        """A hidden state a point, and the last point's for the set."""
        nothing = inputs.new_zeros(len(inputs), self.recurrence.layers, inputs.shape[-1])
        hidden, _ = self.recurrence(inputs, (nothing, nothing))
        last = (lengths - 1).clamp_min(0)[:, None, None].expand(-1, 1, hidden.shape[-1])
        return hidden, hidden.gather(1, last).squeeze(1)


class TransformerSetEncoder(nn.Module):
    """Self-attention over the points, pre-norm, without positions; the set's vector is the mean of its points'."""

    def __init__(self, settings: TransformerEncoderSettings, width: int) -> None:
        super().__init__()
        norm = partial(nn.LayerNorm, width)
        blocks = [
            Block(SelfHeads(width, settings.heads), FeedForward(width, 4 * width, "relu"), norm)
            for _ in range(settings.layers)
        ]
        self.stack = Stack(blocks, causal=False, norm=norm())

    def forward(
        self,
        inputs: Float[Tensor, "batch points width"],
        lengths: Int[Tensor, " batch"],
        real: Bool[Tensor, "batch points"],
    ) -> Encoded:
        """A vector a point, 0 at padding, and their mean for the set."""
        output = self.stack(inputs, keep=None if bool(real.all()) else real).output
        output = torch.where(real[..., None], output, 0)
        return output, output.sum(1) / lengths[:, None]


def make_encoder(settings: LSTMEncoderSettings | TransformerEncoderSettings, width: int) -> Any:
    """The encoder that the settings name."""
    if isinstance(settings, LSTMEncoderSettings):
        return LSTMSetEncoder(settings, width)
    return TransformerSetEncoder(settings, width)
