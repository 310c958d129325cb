"""The variants of attention that textbooks list, made ready by name.

| preset | query, key, value | score |
|---|---|---|
| encoder_decoder_dot | s, h, h | s · h |
| encoder_decoder_qkv | W_q s, W_k h, W_v h | q · k / √width |
| self_dot | x, x, x | x_i · x_j |
| self_qkv | W_q x, W_k x, W_v x | q · k / √width |
| feed_forward | [input; state], –, h | one linear layer over [input; state] |

The second and the fourth divide by the root of the projected width, the first and the third do not.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended, Attention
from regard.attention.modules.multihead import MultiHeadAttention
from regard.attention.parts.mask_kinds import MaskLike
from regard.attention.parts.projection import needs_guard, project
from regard.attention.parts.score import score
from regard.registry import Registry

PRESETS: Registry[nn.Module] = Registry("preset")


def preset(name: str, **sizes: Any) -> Any:
    """Make a textbook variant: encoder_decoder_dot, encoder_decoder_qkv, self_dot, self_qkv, feed_forward, vaswani2017.

    Args:
        name: a registered name.
        **sizes: the widths that the variant has, see each.

    Raises:
        ConfigError: an unknown name (with the nearest one) or sizes that do not fit.
    """
    return PRESETS.make(name, **sizes)


class Variant(nn.Module):
    """One attention behind three projections.

    Args:
        attention: scores and reads.
        query: projection of the query; Identity where the textbook has none.
        key: of the key.
        value: of the value.
    """

    def __init__(
        self, attention: Attention, query: nn.Module | None = None, key: nn.Module | None = None, value: Any = None
    ) -> None:
        super().__init__()
        self.query, self.key, self.value = (part or nn.Identity() for part in (query, key, value))
        self.attention = attention

    def forward(
        self,
        query: Float[Tensor, "batch queries query_dim"],
        key: Float[Tensor, "batch keys key_dim"] | None = None,
        *,
        mask: MaskLike | None = None,
        weights: bool = False,
    ) -> Attended:
        """Attend from `query` over `key`, which is also read; without a key it is self-attention."""
        key = query if key is None else key
        guarded = mask is not None and needs_guard((query, key))
        return self.attention(
            project(self.query, query, guarded),
            project(self.key, key, guarded),
            project(self.value, key, guarded),
            mask=mask,
            weights=weights,
        )


@PRESETS.register("encoder_decoder_dot")
def encoder_decoder_dot() -> Variant:
    """Decoder states attend to encoder states of the same width by their dot product."""
    return Variant(Attention("dot"))


@PRESETS.register("encoder_decoder_qkv")
def encoder_decoder_qkv(query_dim: int, key_dim: int, width: int, value_width: int | None = None) -> Variant:
    """Decoder states attend to encoder states, all projected, by their dot product over √width.

    Args:
        query_dim: width of the decoder's states.
        key_dim: width of the encoder's states.
        width: of the projected queries and keys.
        value_width: of the projected values; None is `width`.
    """
    value_width = width if value_width is None else value_width
    return Variant(
        Attention("scaled_dot"),
        nn.Linear(query_dim, width, bias=False),
        nn.Linear(key_dim, width, bias=False),
        nn.Linear(key_dim, value_width, bias=False),
    )


@PRESETS.register("self_dot")
def self_dot() -> Variant:
    """Positions attend to their own sequence by x_i · x_j; call it with one sequence."""
    return Variant(Attention("dot"))


@PRESETS.register("self_qkv")
def self_qkv(dim: int, width: int, value_width: int | None = None) -> Variant:
    """Positions attend to their own sequence, projected three ways, by their dot product over √width.

    Args:
        dim: width of the sequence.
        width: of the projected queries and keys.
        value_width: of the projected values; None is `width`.
    """
    return encoder_decoder_qkv(dim, dim, width, value_width)


@PRESETS.register("feed_forward")
class FeedForwardAttention(nn.Module):
    """The tutorial's variant: one linear layer over [input; state] scores fixed positions, whatever the keys are.

    Args:
        input_dim: width of the input, the embedded word.
        state_dim: width of the decoder's state.
        positions: the most keys there may be.
    """

    def __init__(self, input_dim: int, state_dim: int, positions: int) -> None:
        super().__init__()
        self.attention = Attention(score("feed_forward", query_dim=input_dim + state_dim, positions=positions))

    def forward(
        self,
        input: Float[Tensor, "batch queries input_dim"],
        state: Float[Tensor, "batch queries state_dim"],
        key: Float[Tensor, "batch keys key_dim"],
        *,
        mask: MaskLike | None = None,
        weights: bool = False,
    ) -> Attended:
        """Attend from [input; state] over the encoder's states `key`, which are read."""
        return self.attention(torch.cat((input, state), dim=-1), key, key, mask=mask, weights=weights)


@PRESETS.register("vaswani2017")
def vaswani2017(dim: int = 512, heads: int = 8) -> MultiHeadAttention:
    """The multi-head attention of the base model: 8 heads of 64, no bias (Vaswani 2017, section 3.2.2)."""
    return MultiHeadAttention(dim, heads, bias=False)
