"""A stack of Transformer blocks built from the settings: heads, norms, positions, and the first weights."""

import math
from functools import partial
from typing import Any

from torch import nn

from regard.attention.modules.heads import CrossHeads, Heads, SelfHeads
from regard.attention.parts.position_factory import position
from regard.layers.transformer.block import Block
from regard.layers.transformer.feed_forward import FeedForward
from regard.layers.transformer.stack import Stack
from regard.models.transformer.embedding import Embedding
from regard.models.transformer.settings import TransformerParts

SHAW_CLIP = 16  # the largest distance with a vector of its own (Shaw et al. 2018, section 4.1)


def make_readout(settings: TransformerParts, vocabulary: int, shared: Embedding | None) -> nn.Linear:
    """Logits, by the embedding's own table where it is shared."""
    readout = nn.Linear(settings.dim, vocabulary, bias=False)
    if shared is None:
        nn.init.normal_(readout.weight, std=0.02)
    else:
        readout.weight = shared.weight
    return readout


def transformer_stack(
    settings: TransformerParts, layers: int, *, causal: bool, across: bool = False, window: int | None = None
) -> Stack:
    """As many blocks as `layers`, as the settings say; see `Stack` for `causal` and `window`."""
    norm = partial(_norm, settings)
    blocks = []
    for _ in range(layers):
        attention = SelfHeads(settings.dim, settings.heads, **_heads(settings), score=_score(settings))
        across_heads = CrossHeads(settings.dim, settings.heads, **_heads(settings)) if across else None
        feed_forward = FeedForward(settings.dim, settings.hidden_dim, settings.activation, settings.bias)
        order = settings.norm_order
        blocks.append(Block(attention, feed_forward, norm, across=across_heads, order=order, dropout=settings.dropout))
    stack = Stack(
        blocks,
        causal=causal,
        position=_position(settings, causal),
        window=window,
        norm=norm() if settings.norm_order == "pre" else None,
        dropout=settings.dropout,
    )
    _initialize(stack, layers, settings)
    return stack


def _heads(settings: TransformerParts) -> dict[str, Any]:
    return {"key_heads": settings.key_heads, "bias": settings.bias, "dropout": settings.attention_dropout}


def _norm(settings: TransformerParts) -> nn.Module:
    if settings.norm == "rms":
        return nn.RMSNorm(settings.dim, eps=1e-6)
    return nn.LayerNorm(settings.dim, bias=settings.bias)


def _score(settings: TransformerParts) -> Any:
    """Shaw's positions are part of the score, and each layer has its own."""
    if settings.position == "shaw":
        return position("shaw", dim=settings.dim // settings.heads, clip=SHAW_CLIP)
    return "scaled_dot"


def _position(settings: TransformerParts, causal: bool) -> Any:
    """The other kinds belong to the stack, and all layers share them."""
    sizes: dict[str, dict[str, Any]] = {
        "sinusoidal": {"dim": settings.dim},
        "learned": {"count": settings.context, "dim": settings.dim},
        "rotary": {"dim": settings.dim // settings.heads, "convention": "half"},
        "alibi": {"heads": settings.heads},
        "t5": {"heads": settings.heads, "bidirectional": not causal},
    }
    return position(settings.position, **sizes[settings.position]) if settings.position in sizes else None


def _initialize(stack: Stack, layers: int, settings: TransformerParts) -> None:
    """Linear layers from N(0, 0.02²) (Radford et al. 2018, section 4.1) or N(0, 1/inputs), biases 0.

    In pre-norm stacks each branch's output projection starts divided by √(2 · layers), so that the stream
    does not grow with the depth: by √(number of residual layers) (Radford et al. 2019, section 2.3), two a block. A
    block with cross-attention adds three times, and its divisor is the same.
    """
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=_spread(module, settings))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    if settings.norm_order == "pre":
        for module in stack.modules():
            if isinstance(module, Heads | FeedForward):
                spread = _spread(module.output, settings) / math.sqrt(2 * layers)
                nn.init.normal_(module.output.weight, std=spread)


def _spread(linear: nn.Linear, settings: TransformerParts) -> float:
    return 0.02 if settings.initial == "small" else float(linear.in_features**-0.5)
