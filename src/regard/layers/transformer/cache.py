"""A stack's KV cache: the keys and values of every layer for all that was read so far, as an immutable value.

A cache grows by giving a longer one. Both stand in one buffer with spare room, so that only new keys are written;
the first continuation of a cache is written in place, and a second one copies.
"""

from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from regard.attention.modules.heads import Keys

SPARE = 64  # spare slots when a buffer is made


class _Buffer:
    """Room for slots, shaped as `states`, and how many of them hold something."""

    def __init__(self, tensor: Tensor, filled: int) -> None:
        self.tensor, self.filled = tensor, filled

    def take(self, end: int, extra: int) -> bool:
        """Whether a cache that ends there may be continued in place: it is the newest, and there is room."""
        free = self.filled == end and end + extra <= self.tensor.shape[4]
        if free and self.tensor.is_inference() == torch.is_inference_mode_enabled():
            self.filled += extra
            return True
        return False


class Cache:
    """A pytree of tensors, batch first: what search reorders, selects and saves.

    Attributes:
        states: keys (0) and values (1) of each layer.
        keep: True where the slot holds a real token; None where all do.
        counted: how many real tokens were read, evicted ones counted.
    """

    def __init__(
        self,
        states: Float[Tensor, "batch layers two key_heads slots width"],
        keep: Bool[Tensor, "batch slots"] | None,
        counted: Int[Tensor, " batch"],
        place: tuple[_Buffer, int] | None = None,
    ) -> None:
        self.states, self.keep, self.counted = states, keep, counted
        self.place = place  # the buffer that the states are a part of, and where they end in it

    @staticmethod
    def empty(batch: int, layers: int, key_heads: int, width: int, like: Tensor) -> "Cache":
        """Nothing read yet, in the type and on the device of `like`."""
        states = like.detach().new_zeros(batch, layers, 2, key_heads, 0, width)
        return Cache(states, None, torch.zeros(batch, dtype=torch.long, device=like.device))

    @property
    def slots(self) -> int:
        """How many keys each layer holds, padding included."""
        return self.states.shape[4]

    def of_layer(self, layer: int) -> Keys:
        """One layer's keys and values, `(batch, key_heads, slots, width)`."""
        return Keys(*self.states[:, layer].unbind(1))

    def grow(self, extra: int) -> "Growth":
        """Room for as many further slots, to be filled layer by layer."""
        return Growth(self, extra)

    def one_more(self) -> "Cache":
        """A cache with one slot more, not yet written to, where nothing is padding. In no graph."""
        if self.place is None or not self.place[0].take(self.place[1], 1):
            return self.grow(1).done(None, self.counted + 1, evicted=0)
        (buffer, end), slots = self.place, self.slots  # a step of few products is mostly calls: here are the fewest
        states = buffer.tensor.narrow(4, end - slots, slots + 1)
        return Cache(states, None, self.counted + 1, (buffer, end + 1))

    def __repr__(self) -> str:
        return f"Cache(states={tuple(self.states.shape)}, keep={None if self.keep is None else tuple(self.keep.shape)})"


class Growth:
    """A cache that is being continued by `extra` slots; each layer adds its own, then `done` gives the longer cache."""

    def __init__(self, cache: Cache, extra: int) -> None:
        self.cache, self.extra = cache, extra
        # A graph (of gradients, or of a compiler) cannot hold memory that is overwritten: there everything is new.
        self.in_place = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
        self.new: list[Tensor] = []
        if self.in_place:
            self.buffer, self.end = self._room()
            self.begin, self.after = self.end - cache.slots, self.end + extra

    # Views of all layers at once: a step of few products is mostly such calls.
    @cached_property
    def new_slots(self) -> tuple[Tensor, ...]:
        """The new slots of each layer's keys and values."""
        return self.buffer.tensor[..., self.end : self.after, :].flatten(1, 2).unbind(1)

    @cached_property
    def all_slots(self) -> tuple[Tensor, ...]:
        """All slots of each layer's keys and values."""
        return self.buffer.tensor[..., self.begin : self.after, :].flatten(1, 2).unbind(1)

    def _room(self) -> tuple[_Buffer, int]:
        """A buffer that may be written to, and where the cache ends in it."""
        states, slots = self.cache.states, self.cache.slots
        if self.cache.place is not None and self.cache.place[0].take(self.cache.place[1], self.extra):
            return self.cache.place
        shape = list(states.shape)
        shape[4] = slots + self.extra + SPARE + slots // 2
        made = states.new_empty(shape)
        made[..., :slots, :] = states
        return _Buffer(made, slots + self.extra), slots

    def add(self, layer: int, new: Keys) -> Keys:
        """The layer's keys, the earlier ones before the new."""
        if self.in_place:
            self.new_slots[2 * layer].copy_(new.key)
            self.new_slots[2 * layer + 1].copy_(new.value)
            return Keys(self.all_slots[2 * layer], self.all_slots[2 * layer + 1])
        self.new.append(torch.stack(new, dim=1))
        old = self.cache.states[:, layer]
        return Keys(torch.cat((old[:, 0], new.key), dim=2), torch.cat((old[:, 1], new.value), dim=2))

    def done(self, keep: Tensor | None, counted: Tensor, evicted: int) -> Cache:
        """The longer cache.

        Args:
            keep: of all its slots.
            counted: of its real tokens.
            evicted: how many of its first slots no later query will attend to.
        """
        keep = None if keep is None else keep[:, evicted:]
        if self.in_place:
            begin = self.begin + evicted
            states = self.buffer.tensor.narrow(4, begin, self.after - begin)
            return Cache(states, keep, counted, (self.buffer, self.after))
        states = torch.cat((self.cache.states, torch.stack(self.new, dim=1)), dim=4)
        return Cache(states[..., evicted:, :], keep, counted)


def _flatten(cache: Cache) -> tuple[list[Tensor], bool]:
    padded = cache.keep is not None
    return [cache.states, cache.counted, *([cache.keep] if cache.keep is not None else [])], padded


def _unflatten(leaves: Any, padded: bool) -> Cache:
    states, counted, *keep = leaves
    return Cache(states, keep[0] if padded else None, counted)


pytree.register_pytree_node(
    Cache,
    _flatten,
    _unflatten,
    serialized_type_name="regard.Cache",
    to_dumpable_context=lambda context: context,
    from_dumpable_context=lambda context: context,
)
