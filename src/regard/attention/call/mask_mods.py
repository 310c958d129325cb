"""Masks as functions of positions, `(batch, head, query, key) -> bool`, for kernels that draw no table of them.

The positions are whole numbers, given as tensors that may be mapped or traced: what a mask knows is captured as a
tensor and read by indexing.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention.call.mask_summary import Lengths, RaggedLengths
from regard.attention.parts.mask_kinds import (
    Around,
    Causal,
    Document,
    Function,
    Inverted,
    Joined,
    Mask,
    Padding,
    Prefix,
    Ragged,
    Sizes,
    Window,
)

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@functools.singledispatch
def mask_mod(mask: Mask, sizes: Sizes, device: torch.device) -> MaskMod | None:
    """The mask as a function; None of a table, and of a kind that is not known here.

    Args:
        mask: of one call.
        sizes: of the call.
        device: where the positions lie.
    """
    return None


@mask_mod.register
def _(mask: Causal, sizes: Sizes, device: torch.device) -> MaskMod:
    offset = _offset(mask, sizes)
    return lambda b, h, q, k: k <= q + offset


@mask_mod.register
def _(mask: Window, sizes: Sizes, device: torch.device) -> MaskMod:
    offset, left, right = _offset(mask, sizes), mask.left, mask.right
    return lambda b, h, q, k: (k >= q + offset - left) & (k <= q + offset + right)


@mask_mod.register
def _(mask: Around, sizes: Sizes, device: torch.device) -> MaskMod:
    drawn_for, radius = torch.as_tensor(mask.center, device=device).float(), mask.radius
    number = torch.finfo(torch.float32)
    reach = radius + 8 * number.eps * drawn_for.abs().clamp(1.0, number.max)
    if drawn_for.ndim == 0:
        return lambda b, h, q, k: (k - drawn_for).abs() <= reach
    if drawn_for.ndim == 2:
        return lambda b, h, q, k: (k - drawn_for[b, q]).abs() <= reach[b, q]
    return lambda b, h, q, k: (k - drawn_for[b, h, q]).abs() <= reach[b, h, q]


@mask_mod.register
def _(mask: Padding, sizes: Sizes, device: torch.device) -> MaskMod:
    if isinstance(mask, Lengths):
        known = torch.tensor(mask.known, device=device)
        return lambda b, h, q, k: k < known[b]
    kept = mask.draw(sizes, device)[:, 0, 0].expand(sizes.batch, -1).contiguous()
    return lambda b, h, q, k: kept[b, k]


@mask_mod.register
def _(mask: Ragged, sizes: Sizes, device: torch.device) -> MaskMod:
    lengths = mask.known if isinstance(mask, RaggedLengths) else mask.lengths
    known = torch.as_tensor(lengths, device=device).expand(sizes.batch).contiguous()
    return lambda b, h, q, k: (k < known[b]) & (q < known[b])


@mask_mod.register
def _(mask: Prefix, sizes: Sizes, device: torch.device) -> MaskMod:
    known = torch.as_tensor(mask.length, device=device).expand(sizes.batch).contiguous()
    return lambda b, h, q, k: k < known[b]


@mask_mod.register
def _(mask: Document, sizes: Sizes, device: torch.device) -> MaskMod:
    ids = mask.ids.to(device).expand(sizes.batch, -1).contiguous()
    offset = sizes.keys - sizes.queries
    return lambda b, h, q, k: ids[b, q + offset] == ids[b, k]


@mask_mod.register
def _(mask: Function, sizes: Sizes, device: torch.device) -> MaskMod:
    function: Any = mask.function
    return function


@mask_mod.register
def _(mask: Inverted, sizes: Sizes, device: torch.device) -> MaskMod | None:
    inner = mask_mod(mask.inner, sizes, device)
    return None if inner is None else lambda b, h, q, k: ~inner(b, h, q, k)


@mask_mod.register
def _(mask: Joined, sizes: Sizes, device: torch.device) -> MaskMod | None:
    left, right = mask_mod(mask.left, sizes, device), mask_mod(mask.right, sizes, device)
    if left is None or right is None:
        return None
    if mask.sign == "&":
        return lambda b, h, q, k: left(b, h, q, k) & right(b, h, q, k)
    return lambda b, h, q, k: left(b, h, q, k) | right(b, h, q, k)


def _offset(mask: Causal | Window, sizes: Sizes) -> int:
    return sizes.keys - sizes.queries if mask.anchor == "end" else 0
