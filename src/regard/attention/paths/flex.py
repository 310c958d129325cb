"""The flex path: on a GPU, masks that are functions of positions, with no table of queries × keys."""

import copy
import functools
from collections.abc import Hashable, Iterator

import torch
from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call
from regard.attention.call.dot_sides import attended, dot_sides
from regard.attention.call.mask_mods import mask_mod
from regard.attention.call.mask_summary import Lengths, RaggedLengths
from regard.attention.cost.cost import Cost, by_tiles
from regard.attention.cost.workload import pairs, workload_of
from regard.attention.parts.mask_kinds import Causal, Joined, Keep, Mask, Sizes, Window
from regard.attention.paths.base import Path, needs_all_weights, not_softmax
from regard.kernels.fallback import flex


class Flex(Path):
    """Softmax of dot products under windows, lengths, documents, functions of positions, and their joins."""

    name = "flex"
    does = "flex_attention computes it block by block: the mask is a function of positions, and no table of it is drawn"
    for_dots = True
    least = 2**14

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        known = call.summary
        if call.mask is None or (known.causal and known.beside_causal is None):
            yield "scaled_dot_product_attention knows such a mask by itself"
            return
        reason = None if call.value is None else flex.refuses(call.query, call.value)
        if reason is not None:
            yield reason
        if _has_table(call.mask) or mask_mod(call.mask, call.sizes, torch.device("meta")) is None:
            yield "the mask is a table, or of a kind that is no function of positions"
        if call.traced:
            yield "torch.compile traces the call"
        if call.bias is not None:
            yield "bias= is given"
        if call.dropout > 0:
            yield "dropout= is above 0"
        if not call.is_softmax:
            yield not_softmax(call)
        yield from needs_all_weights(call)

    def table(self, call: Call) -> Mask | None:
        """None: the function says all."""
        return None

    def run(self, call: Call, top: int | None) -> Attended:
        """See `Path.run`."""
        assert call.mask is not None
        sides, headless = dot_sides(call), call.query.ndim == 3
        three = sides.left, sides.right, sides.value
        query, key, value = (one.unsqueeze(1) if headless else one for one in three)
        mask = _owned(call.mask)
        blocks = _blocks(mask, call.sizes, call.query.device)
        context = flex.attention(query, key, value, blocks=blocks, scale=sides.scale)

        def drawn_mask() -> Tensor | None:
            return call.drawn(mask)

        return attended(call, sides, context.squeeze(1) if headless else context, drawn_mask)

    def cost(self, call: Call) -> Cost:
        """As if every pair were computed that lengths, a window and what is causal leave."""
        known = call.summary
        computed = pairs(call, causal=known.causal, lengths=known.lengths, window=known.window)
        words = "queries × keys attended to × heads × width"
        return by_tiles(self.name, workload_of(call), computed, 0, (0, 0), words)


def _has_table(mask: Mask | None) -> bool:
    if isinstance(mask, Joined):
        return _has_table(mask.left) or _has_table(mask.right)
    return isinstance(mask, Keep)


def _owned(mask: Mask) -> Mask:
    """The mask with copies of its tensors: the caller's may have changed once the weights are asked for."""
    other = copy.copy(mask)
    for name, held in vars(mask).items():
        if isinstance(held, Tensor):
            setattr(other, name, held.detach().clone())
        elif isinstance(held, Mask):
            setattr(other, name, _owned(held))
    return other


def _blocks(mask: Mask, sizes: Sizes, device: torch.device) -> flex.BlockMask:
    """The blocks of a mask; those of a mask that no tensor can change are made once for all layers and steps."""
    signature = _signature(mask)
    return _made(mask, sizes, device) if signature is None else _kept(_Known(mask, signature), sizes, device)


def _made(mask: Mask, sizes: Sizes, device: torch.device) -> flex.BlockMask:
    function = mask_mod(mask, sizes, device)
    assert function is not None
    return flex.blocks_of(function, *sizes, device)


class _Known:
    """A mask that equals another if their signatures are equal."""

    def __init__(self, mask: Mask, signature: Hashable) -> None:
        self.mask, self.signature = mask, signature

    def __hash__(self) -> int:
        return hash(self.signature)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.signature == other.signature


@functools.lru_cache(maxsize=32)
def _kept(known: _Known, sizes: Sizes, device: torch.device) -> flex.BlockMask:
    return _made(known.mask, sizes, device)


def _signature(mask: Mask) -> Hashable | None:
    """What all there is to a mask, where no tensor of the caller's is in it."""
    if type(mask) is Causal:
        return "causal", mask.anchor
    if type(mask) is Window:
        return "window", mask.left, mask.right, mask.anchor
    if isinstance(mask, Lengths | RaggedLengths):
        return type(mask).__name__, mask.known
    if isinstance(mask, Joined):
        left, right = _signature(mask.left), _signature(mask.right)
        return None if left is None or right is None else (mask.sign, left, right)
    return None
