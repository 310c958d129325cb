"""A stack of blocks, one after the other: vectors in, vectors out.

What the layers share (masks, positions, the room for new keys) is made once by the stack.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.attention.attended import Attended
from regard.attention.modules.heads import AttentionContext, Keys
from regard.errors import ConfigError, ShapeError
from regard.kernels.transformer.norm import sum_and_norm
from regard.layers.dropout import Dropout
from regard.layers.reference import reference_tensor
from regard.layers.transformer.block import Block
from regard.layers.transformer.cache import Cache, Growth
from regard.layers.transformer.positions import TokenPositions
from regard.layers.transformer.step import invalidate, one_more, steps_of


class Memory(NamedTuple):
    """Keys and values of a stack's cross-attentions, projected once: a pytree of tensors, batch first.

    Attributes:
        keys: of each layer.
        keep: True where a position is real; None where all are.
    """

    keys: tuple[Keys, ...]
    keep: Bool[Tensor, "batch keys"] | None


class Stacked(NamedTuple):
    """What a stack gives.

    Attributes:
        output: a vector a position.
        cache: what it has read, where a cache was given.
        attended: the attention of each layer, "self 0", "cross 0", "self 1", …
    """

    output: Float[Tensor, "batch positions dim"]
    cache: Cache | None
    attended: Mapping[str, Attended]


class Stack(nn.Module):
    """Blocks of one kind, one after the other.

    Args:
        blocks: all with cross-attention, or all without.
        causal: whether a position attends to itself and those before it, or to all.
        position: a position part of kind add, rotate or bias, shared by the layers; those of kind score are in the
            blocks' attentions.
        window: how many keys a query attends to, itself counted; needs `causal`.
        norm: after the last block (pre-norm stacks need one).
        dropout: on what comes in, once positions are added.

    Raises:
        ConfigError: no blocks, blocks of both kinds, a window without `causal`, or a position part of another kind.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        *,
        causal: bool,
        position: nn.Module | None = None,
        window: int | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not blocks or any((block.across is None) != (blocks[0].across is None) for block in blocks):
            raise ConfigError("a stack has one block or more, all with cross-attention or all without")
        if window is not None and (window < 1 or not causal):
            raise ConfigError(f"a window counts 1 key or more and belongs to a causal stack; got {window=}, {causal=}")
        kind = getattr(position, "kind", None)
        if position is not None and kind not in ("add", "rotate", "bias"):
            raise ConfigError(f"position= takes a part of kind add, rotate or bias, got {kind!r}")
        self.blocks = nn.ModuleList(blocks)
        self.causal, self.window = causal, window
        self.position: Any = position
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = Dropout(dropout)
        self.checkpointed = False
        self._scored = any(getattr(block.attention.score, "kind", None) == "score" for block in blocks)

    def start(self, batch: int) -> Cache:
        """Nothing read yet."""
        invalidate(self)
        heads: Any = self.blocks[0].attention
        return Cache.empty(batch, len(self.blocks), heads.key_heads, heads.width, reference_tensor(heads))

    def memory(self, states: Float[Tensor, "batch keys dim"], keep: Bool[Tensor, "batch keys"] | None = None) -> Memory:
        """Keys and values of the cross-attentions, projected once for all steps; padding is masked out."""
        states = _zero_padding(states, keep)
        return Memory(tuple(block.across.project(states) for block in self._blocks()), keep)

    def forward(
        self,
        x: Float[Tensor, "batch positions dim"],
        *,
        keep: Bool[Tensor, "batch positions"] | None = None,
        cache: Cache | None = None,
        memory: Memory | None = None,
        documents: Int[Tensor, "batch positions"] | None = None,
    ) -> Stacked:
        """Read some positions.

        Args:
            x: a vector a position.
            keep: True where a position is real; padding is masked out, and takes no position. None: all are.
            cache: what was read before, of which this is the continuation; it stays as it is.
            memory: what `memory` made, where the blocks have cross-attention.
            documents: equal numbers where positions belong to one text, one text after the other: packed texts do
                not attend to each other, and each counts its own positions. Not with a cache.

        Returns:
            The vectors after the last layer; what padding gives is of no meaning.

        Raises:
            ConfigError: `memory` where there is no cross-attention, or none where there is; a cache that is not for a
                causal stack, or beside `documents`.
            ShapeError: the cache has another number of rows.
        """
        if (memory is None) != (self._blocks()[0].across is None):
            raise ConfigError("a stack with cross-attention takes memory=, one without it takes none")
        if cache is not None and not self.causal:
            raise ConfigError("a cache continues a text, so it belongs to a causal stack")
        if cache is not None and cache.counted.shape[0] != x.shape[0]:
            raise ShapeError(f"the cache has {cache.counted.shape[0]} rows, x has shape {tuple(x.shape)}")
        if cache is not None and documents is not None:
            raise ConfigError("packed documents are read at once: give documents= or cache=, not both")
        if cache is not None and memory is None and keep is None:
            steps = steps_of(self, x, cache)
            if steps is not None:
                return Stacked(*one_more(self, steps, x, cache))
        positions = TokenPositions.of(x, keep, cache, documents)
        x = _zero_padding(x, keep)
        if self.position is not None and self.position.kind == "add":
            x = self.position.add(x, positions.query_positions)
        x = self.dropout(x)
        attention_context = positions.attention_context(self.causal, self.window, self.position, self._scored)
        cross_attention_context = (
            None if memory is None else AttentionContext(None if memory.keep is None else memory.keep[:, None, None])
        )
        growth = None if cache is None else cache.grow(x.shape[1])
        attended: dict[str, Attended] = {}
        for layer, block in enumerate(self._blocks()):
            given = (None, None) if memory is None else (memory.keys[layer], cross_attention_context)
            if self.checkpointed and self.training and growth is None:
                x = checkpoint(_only_output, block, x, attention_context, *given, use_reentrant=False)
                continue
            x, attended[f"self {layer}"], cross = block(x, attention_context, *given, _adder(growth, layer))
            if cross is not None:
                attended[f"cross {layer}"] = cross
        after = (
            None if growth is None else growth.done(positions.keep, positions.counted, positions.evicted(self.window))
        )
        return Stacked(sum_and_norm(self.norm, x)[1], after, attended)

    def _blocks(self) -> list[Any]:
        return list(self.blocks)

    def extra_repr(self) -> str:
        """The two choices of the mask, for `print`."""
        return f"causal={self.causal}, window={self.window}"


def checkpoint_activations(model: nn.Module, on: bool = True) -> int:
    """Make each block's activations anew in the backward pass: memory of one layer for a third more time.

    The numbers are the same. The layers' attention is not kept (`attended` is empty), since it would hold the memory
    that was saved.

    Returns:
        How many stacks the model has.
    """
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    for stack in stacks:
        stack.checkpointed = on
    return len(stacks)


def _only_output(block: Block, x: Tensor, attention_context: AttentionContext, *given: Any) -> Tensor:
    output: Tensor = block(x, attention_context, *given)[0]
    return output


def _adder(growth: Growth | None, layer: int) -> Callable[[Keys], Keys] | None:
    return None if growth is None else lambda keys: growth.add(layer, keys)


def _zero_padding(x: Tensor, keep: Tensor | None) -> Tensor:
    """Padding is set to 0, whatever it held: it stays finite, so that a weight of 0 removes it."""
    return x if keep is None else torch.where(keep.unsqueeze(-1), x, 0.0)
