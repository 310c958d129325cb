"""The block of Vaswani et al. (2017): vectors in, vectors out.

pre-norm    x + f(norm(x))    for each sub-layer f: self-attention, (cross-attention,) feed-forward
post-norm   norm(x + f(x))    as in the paper
"""

from collections.abc import Callable
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attended import Attended
from regard.attention.modules.heads import AttentionContext, CrossHeads, Keys, SelfHeads
from regard.errors import ConfigError
from regard.kernels.transformer.norm import sum_and_norm
from regard.layers.dropout import Dropout

Order = Literal["pre", "post"]


class Block(nn.Module):
    """One layer: self-attention, cross-attention where it is given, feed-forward network, each added to its input.

    Args:
        attention: self-attention.
        feed_forward: of each position by itself.
        norm: makes a norm; called once for each sub-layer.
        across: cross-attention, if the layer has one.
        order: pre or post, see the module.
        dropout: on what each sub-layer adds.

    Raises:
        ConfigError: the order is neither.
    """

    def __init__(
        self,
        attention: SelfHeads,
        feed_forward: nn.Module,
        norm: Callable[[], nn.Module],
        *,
        across: CrossHeads | None = None,
        order: Order = "pre",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if order not in ("pre", "post"):
            raise ConfigError(f"a block's order is pre or post; it was {order!r}")
        self.order = order
        self.attention, self.attention_norm = attention, norm()
        self.across = across
        self.across_norm = None if across is None else norm()
        self.feed_forward, self.feed_forward_norm = feed_forward, norm()
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch positions dim"],
        attention_context: AttentionContext,
        memory: Keys | None = None,
        cross_attention_context: AttentionContext | None = None,
        remember: Callable[[Keys], Keys] | None = None,
    ) -> tuple[Float[Tensor, "batch positions dim"], Attended, Attended | None]:
        """One layer's step.

        Args:
            x: a vector a position.
            attention_context: mask, bias and rotation of the self-attention.
            memory: keys and values of the layer's cross-attention.
            cross_attention_context: their mask.
            remember: keys and values of these positions to those of all that were read.

        Returns:
            The vectors, and the two attentions.
        """
        before = self.order == "pre"
        if before:
            x, inputs = sum_and_norm(self.attention_norm, x)
        else:
            inputs = x
        if remember is None:
            attended = self.attention.self_attend(inputs, attention_context)
        else:
            query, keys = self.attention.project(inputs, attention_context.rotation)
            attended = self.attention(query, remember(keys), attention_context)
        x, inputs = self._added(x, attended.context, self.attention_norm, self.across_norm)
        cross = None
        if self.across is not None:
            cross = self.across(self.across.project_query(inputs), memory, cross_attention_context)
            x, inputs = self._added(x, cross.context, self.across_norm, None)
        added = self.dropout(self.feed_forward(inputs))
        return x + added if before else sum_and_norm(self.feed_forward_norm, x, added)[1], attended, cross

    def _added(self, x: Tensor, more: Any, own: Any, following: nn.Module | None) -> tuple[Tensor, Tensor]:
        """What a sub-layer gives, added to its input; and what the next one reads."""
        added = self.dropout(more)
        if self.order == "post":
            x = sum_and_norm(own, x, added)[1]
            return x, x
        return sum_and_norm(self.feed_forward_norm if following is None else following, x, added)
