"""Dropout, the same in distribution as torch's and cheap on a CPU."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.kernels.loss import dropout as kernel


class Dropout(nn.Module):
    """Each element is 0 with probability `rate`, otherwise divided by the probability of staying; nothing in eval.

    torch draws a double for each element on a CPU, which costs 26 to 60 multiplications; here 16 bits decide, drawn
    from torch's global generator (so a resumed run continues bit for bit). The rate is rounded to a multiple of 1/65536
    and the scale uses the rounded one, so the expectation is exact. Other devices use torch's own.

    Args:
        rate: from 0 up to, but not including, 1.

    Raises:
        ConfigError: the rate is outside of that.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ConfigError(f"a dropout rate is at least 0 and below 1; it was {rate}")
        self.rate = rate
        self.dropped = min(round(rate * kernel.LEVELS), kernel.LEVELS - 1)

    def extra_repr(self) -> str:
        """The rate, for `print`."""
        return f"rate={self.rate}"

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """`inputs` with elements dropped in training, and as they are in evaluation."""
        if not self.training or self.rate == 0:
            return inputs
        if inputs.device.type != "cpu":
            return F.dropout(inputs, self.rate)
        drawn = torch.empty(kernel.draws(inputs.numel()), dtype=torch.int64, device=inputs.device)
        return kernel.dropped(inputs, kernel.bits_of(drawn.random_(-(2**63), None), inputs), self.dropped)


def drop_words(words: Int[Tensor, "batch steps"], rate: float, unknown: int) -> Int[Tensor, "batch steps"]:
    """Word dropout (Bowman et al. 2016, §3.3): each token but the first, BOS, is unknown with probability `rate`.

    A decoder that cannot rely on its own last word has to attend to the source for the next one.
    """
    dropped = torch.rand(words.shape, device=words.device) < rate
    dropped[:, :1] = False
    return torch.where(dropped, unknown, words)
