"""Masks: which keys each query may attend to. One polarity everywhere: True, or "keep", means that it may.

A mask is an object that is drawn for a call's sizes when they are known; masks are joined by `&`, `|` and `~`.
Unequal lengths: with `anchor="end"` (the default) the last query stands at the last key, so that one new query against
four cached keys attends to all four; with `anchor="start"` query i stands at key i.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.parts.mask_kinds import (
    Around,
    Causal,
    Document,
    Keep,
    Mask,
    Padding,
    Prefix,
    Ragged,
    Window,
    check_bool,
)
from regard.errors import MaskError, nearest

ANCHORS = ("end", "start")


def causal(anchor: str = "end") -> Mask:
    """A query attends to its own position and those before it; of too many (anchor end) the first attend to none.

    Raises:
        MaskError: an unknown anchor.
    """
    return Causal(_check_anchor(anchor))


def window(left: int, right: int, anchor: str = "end") -> Mask:
    """A query attends to its own position, `left` before it and `right` after it: `window(2, 0)` shows 3 keys.

    Raises:
        MaskError: a side below 0, or an unknown anchor.
    """
    if left < 0 or right < 0:
        raise MaskError(f"a window's sides count positions from 0; they were left={left}, right={right}")
    left, right = (int(min(side, 2**40)) for side in (left, right))  # "inf" is beyond every key, too
    return Window(left, right, _check_anchor(anchor))


def around(
    center: Float[Tensor, " batch *queries"] | Int[Tensor, " batch *queries"] | float | int, radius: float
) -> Mask:
    """A query attends to the keys at most `radius` from its center (Luong 2015, §3.2: local-m is `around(t, D)`).

    Args:
        center: (batch, queries) or (batch, heads, queries), in key positions from 0, real-valued; or one number.
        radius: D, in positions.

    Raises:
        MaskError: a radius below 0.
    """
    if not radius >= 0:
        raise MaskError(f"a radius counts positions from 0; it was {radius}")
    return Around(center, radius)


def padding(lengths: Tensor | Sequence[int] | None = None, *, keep: Tensor | None = None) -> Mask:
    """Each item has its own number of real keys.

    Args:
        lengths: (batch,), the first that many keys are real.
        keep: (batch, keys) bool, True where the key is real; for padding on the left, or anywhere.

    Raises:
        MaskError: both or neither are given; lengths that are not whole numbers, or one for each item; `keep` that is
            not bool.
    """
    if (lengths is None) == (keep is None):
        raise MaskError("padding() takes lengths or keep=(batch, keys), one of the two")
    if keep is not None:
        check_bool("padding(keep=…)", keep)
        return Padding(None, keep)
    lengths = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths, device="cpu")
    if lengths.ndim == 2:
        raise MaskError(
            f"lengths are one number an item, but their shape is {tuple(lengths.shape)}; for a (batch, keys) mask "
            "write padding(keep=mask)"
        )
    return Padding(_whole("padding(lengths)", lengths), None)


def ragged(lengths: Tensor | Sequence[int]) -> Mask:
    """Self-attention of items of different lengths: the first n queries attend to the first n keys, the others to none.

    As `padding(lengths)` for everything that is real; but what stands behind an item reads 0 and is not computed.

    Args:
        lengths: (batch,), the first that many positions are real.

    Raises:
        MaskError: lengths that are not whole numbers, or not one for each item.
    """
    numbers = _whole("ragged(lengths)", lengths)
    if numbers.ndim != 1:
        raise MaskError(f"lengths are one number an item, but their shape is {tuple(numbers.shape)}")
    return Ragged(numbers)


def prefix(n: int | Int[Tensor, "*batch"] | Sequence[int]) -> Mask:
    """Keys before position n, one number or one an item; `prefix(n) | causal()` is a prefix language model.

    Raises:
        MaskError: numbers that are not whole.
    """
    return Prefix(n if isinstance(n, int) else _whole("prefix(n)", n))


def document(ids: Int[Tensor, "*batch positions"] | Sequence[Any]) -> Mask:
    """Positions of one document attend to each other: ids (batch, keys) or (keys,), equal where the document is one.

    Raises:
        MaskError: ids that are not whole numbers.
    """
    return Document(_whole("document(ids)", ids))


def keep(tensor: Bool[Tensor, "..."]) -> Mask:
    """A mask that is given whole: (queries, keys), (batch, queries, keys) or (batch, heads, queries, keys), bool.

    Raises:
        MaskError: it is not bool.
    """
    return Keep(tensor)


def _check_anchor(anchor: str) -> str:
    if anchor not in ANCHORS:
        raise MaskError(f"no anchor is named {anchor!r}.{nearest(anchor, ANCHORS)}")
    return anchor


def _whole(what: str, given: Any) -> Tensor:
    # as_tensor alone would take it to torch's default device.
    numbers = given if isinstance(given, Tensor) else torch.as_tensor(given, device="cpu")
    if numbers.numel() and (numbers.dtype == torch.bool or numbers.is_floating_point()):
        raise MaskError(f"{what} takes whole numbers; they are {numbers.dtype}")
    return numbers if numbers.numel() else numbers.long()
