"""The feed-forward network of a Transformer's block: each position by itself, wider and back."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError, nearest
from regard.kernels.autograd.hooks import is_hooked
from regard.kernels.transformer import feed_forward as kernel

ACTIVATIONS = ("relu", "gelu", "swiglu")


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between them; with swiglu a third one gates.

    | activation | formula |
    |---|---|
    | relu | max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, eq. 2) |
    | gelu | GELU(x W_1 + b_1) W_2 + b_2 (Hendrycks & Gimpel 2016, its exact form) |
    | swiglu | (Swish(x W) ⊙ x V) W_2 (Shazeer 2020, eq. 6) |

    swiglu has three matrices: a hidden width of 8/3 · dim costs what 4 · dim costs the others.

    Args:
        dim: width of inputs and outputs.
        hidden_dim: width between.
        activation: relu, gelu or swiglu.
        bias: whether the linear layers have one.

    Raises:
        ConfigError: an unknown activation.
    """

    def __init__(self, dim: int, hidden_dim: int, activation: str = "gelu", bias: bool = True) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f"no activation is named {activation!r}.{nearest(activation, ACTIVATIONS)}")
        self.activation = activation
        gated = activation == "swiglu"
        self.inputs = nn.Linear(dim, 2 * hidden_dim if gated else hidden_dim, bias=bias)  # W and V side by side
        self.output = nn.Linear(hidden_dim, dim, bias=bias)

    def forward(self, x: Float[Tensor, "*lead dim"]) -> Float[Tensor, "*lead dim"]:
        """The network's output at each position."""
        if self.activation == "gelu" and type(self.inputs) is type(self.output) is nn.Linear:
            weights = (self.inputs.weight, self.inputs.bias, self.output.weight, self.output.bias)
            if kernel.serves(x, self.inputs.out_features, *weights) and not is_hooked(self.inputs, self.output):
                return kernel.gelu_network(x, *weights)
        hidden = self.inputs(x)
        if self.activation == "relu":
            hidden = F.relu(hidden)
        elif self.activation == "gelu":
            hidden = F.gelu(hidden)
        else:
            gate, hidden = hidden.chunk(2, dim=-1)
            hidden = F.silu(gate) * hidden
        out: Tensor = self.output(hidden)
        return out

    def extra_repr(self) -> str:
        """The activation, for `print`."""
        return f"activation={self.activation!r}"
