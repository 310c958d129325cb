"""Position ids of one call's queries and keys, and the mask between them."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.modules.heads import AttentionContext
from regard.layers.transformer.cache import Cache


@dataclass(frozen=True)
class TokenPositions:
    """The queries are the last of the keys; the slots before them are those of the cache.

    Attributes:
        key_positions: each slot's position, counting real tokens; padding has that of the real token before it, or 0.
        queries: how many are new.
        keep: True where a slot is real; None where all are.
        counted: how many real tokens each row has had.
        documents: which text each belongs to.
    """

    key_positions: Int[Tensor, "#batch keys"]
    queries: int
    keep: Bool[Tensor, "batch keys"] | None
    counted: Int[Tensor, " #batch"]
    documents: Int[Tensor, "batch keys"] | None

    @staticmethod
    def of(
        x: Float[Tensor, "batch positions dim"],
        keep: Bool[Tensor, "batch positions"] | None,
        cache: Cache | None,
        documents: Int[Tensor, "batch positions"] | None,
    ) -> "TokenPositions":
        """Positions of new tokens after those of the cache."""
        batch, new = x.shape[:2]
        slots = 0 if cache is None else cache.slots
        if slots and cache is not None and (keep is not None or cache.keep is not None):
            earlier = x.new_ones(batch, slots, dtype=torch.bool) if cache.keep is None else cache.keep
            keep = torch.cat((earlier, x.new_ones(batch, new, dtype=torch.bool) if keep is None else keep), dim=1)
        counted = x.new_zeros(1, dtype=torch.long) if cache is None else cache.counted
        steps = torch.arange(slots + new, device=x.device)
        if documents is not None:
            key_positions = _within(documents, keep, steps)
        elif keep is None:
            counted = counted + new
            key_positions = (counted[:1] - (slots + new)).unsqueeze(-1) + steps  # rows without padding are alike
        else:
            counted = counted + keep[:, slots:].sum(-1)
            gone = counted - keep.sum(-1)  # real tokens that a window has evicted
            key_positions = (gone.unsqueeze(-1) + keep.long().cumsum(-1) - 1).clamp(min=0)
        return TokenPositions(key_positions, new, keep, counted, documents)

    @property
    def query_positions(self) -> Int[Tensor, "#batch queries"]:
        """The positions of those that are new."""
        return self.key_positions[:, self.key_positions.shape[1] - self.queries :]

    def attention_context(self, causal: bool, window: int | None, position: Any, scored: bool) -> AttentionContext:
        """Mask, bias and rotation of this call, for all layers."""
        keys = self.key_positions.shape[1]
        kind = getattr(position, "kind", None)
        bias = position.bias(self.query_positions, self.key_positions) if kind == "bias" else None
        rotation = None
        if kind == "rotate":
            rotation = position.rotation_at(self.query_positions)
        positions = (self.query_positions, self.key_positions) if scored else None
        narrow = window is not None and (torch.compiler.is_compiling() or keys > window)
        plain = self.keep is None and self.documents is None and not narrow
        if plain and (not causal or self.queries in (1, keys)):
            return AttentionContext(None, causal and self.queries > 1, bias, rotation, positions)
        return AttentionContext(self._mask(causal, window if narrow else None), False, bias, rotation, positions)

    def _mask(self, causal: bool, window: int | None) -> Bool[Tensor, "#batch 1 #queries keys"]:
        keys = self.key_positions.shape[1]
        steps = torch.arange(keys, device=self.key_positions.device)
        mask = torch.ones(1, 1, keys, dtype=torch.bool, device=steps.device)
        if causal:
            mask = steps <= steps[keys - self.queries :, None]
        if window is not None:  # by position, for padding takes no place in it
            mask = mask & (self.key_positions.unsqueeze(-2) > self.query_positions.unsqueeze(-1) - window)
        if self.documents is not None:
            mask = mask & (self.documents.unsqueeze(-2) == self.documents.unsqueeze(-1))
        if self.keep is not None:
            mask = mask & self.keep.unsqueeze(-2)
        return mask.unsqueeze(-3) if mask.ndim == 3 else mask[None, None]

    def evicted(self, window: int | None) -> int:
        """How many of the first slots no later query attends to; a traced graph cannot know, and masks them out."""
        if torch.compiler.is_compiling():
            return 0
        keys = self.key_positions.shape[1]
        if window is None or keys <= window:
            return 0
        if self.keep is None:
            return keys - window
        live = self.keep & (self.key_positions > self.key_positions[:, -1:] - window)
        return int(live.any(0).int().argmax()) if bool(live.any()) else keys


def _within(documents: Tensor, keep: Tensor | None, steps: Tensor) -> Tensor:
    """Positions that begin anew with each document."""
    real = torch.ones_like(documents) if keep is None else keep.long()
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    count = real.cumsum(-1)
    before = torch.where(begins, count - real, 0).cummax(-1).values
    return (count - before - 1).clamp(min=0)
