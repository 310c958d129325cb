"""What a mask comes to: fast paths know causal masks, lengths and windows, and need no drawing of queries × keys.

Only what can be read off cheaply, and only for calls that are large enough to gain: everything else is drawn.
"""

import functools
import operator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attended import transformed
from regard.attention.masks import Causal, Joined, Keep, Mask, Padding, Ragged, Sizes, Window, causal
from regard.kernels.calls import is_readable

_LARGE = 2**16
"""From so many queries × keys on a look at the mask's numbers costs little beside the call."""

_PLACED, _OF_LENGTHS = (Causal, Window), (Padding, Ragged)


class Seen(NamedTuple):
    """A mask taken apart; all parts must agree.

    Attributes:
        causal: query i sees no key beyond i, as many queries as keys.
        lengths: the keys of each item that are real and come first, or None for all.
        asked: whether only as many queries of each item see anything.
        window: the positions before and after its own that a query sees, as many queries as keys; or None.
        rest: everything else, to be drawn.
        beside_causal: all of it without `causal`.
        mask: all of it again, without what hides nothing and without the caller's tensors where they were read.
    """

    causal: bool
    lengths: tuple[int, ...] | None
    asked: bool
    window: tuple[int, int] | None
    rest: Mask | None
    beside_causal: Mask | None
    mask: Mask | None

    @property
    def ragged(self) -> bool:
        """Whether all that it hides, but for what is causal, is behind each item's own keys."""
        return self.lengths is not None and self.rest is None and self.window is None


class Apart(NamedTuple):
    """A mask taken apart for the compiled loop, which knows more: where a query stands may be any key.

    Attributes:
        causal: query i sees no key beyond i + offset.
        offset: the key at which query 0 stands.
        window: the positions before and after its own that a query sees, or None for all.
        lengths: the keys of each item that are real and come first, or None for all.
        asked: likewise the queries that see anything.
        known: all that the above say, as a mask that no caller can change.
        rest: everything else, to be drawn.
    """

    causal: bool
    offset: int
    window: tuple[int, int] | None
    lengths: tuple[int, ...] | None
    asked: tuple[int, ...] | None
    known: Mask | None
    rest: Mask | None


def apart(mask: Mask | None, sizes: Sizes) -> Apart:
    """What the compiled loop need not be drawn."""
    if mask is None:
        return _WHOLE
    parts = [_of_padding(part, sizes) if isinstance(part, _OF_LENGTHS) else part for part in conjuncts(mask)]
    placed = [part for part in parts if isinstance(part, _PLACED)]
    placed = [part for part in placed if part.anchor == placed[0].anchor]
    offset = sizes.keys - sizes.queries if placed and placed[0].anchor == "end" else 0
    windows = [part for part in placed if isinstance(part, Window)]
    lengths = [part for part in parts if isinstance(part, _READ)]
    known: list[Mask] = [*placed, *lengths]
    return Apart(
        causal=len(windows) < len(placed),
        offset=offset,
        window=(min(part.left for part in windows), min(part.right for part in windows)) if windows else None,
        lengths=_least([part.known for part in lengths]),
        asked=_least([part.known for part in lengths if isinstance(part, _RaggedLengths)]),
        known=joined(known),
        rest=joined([part for part in parts if part is not None and part not in known]),
    )


_WHOLE = Apart(False, 0, None, None, None, None, None)


def _least(lengths: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Of each item the least length of all that are told."""
    return tuple(map(min, *lengths)) if len(lengths) > 1 else lengths[0] if lengths else None


def conjuncts(mask: Mask | None) -> list[Mask]:
    """The masks that must all agree: `a & b & c` taken apart."""
    if mask is None:
        return []
    if isinstance(mask, Joined) and mask.sign == "&":
        return [*conjuncts(mask.left), *conjuncts(mask.right)]
    return [mask]


def joined(masks: list[Mask]) -> Mask | None:
    """The mask that wants them all."""
    return functools.reduce(operator.and_, masks) if masks else None


def seen(mask: Mask | None, sizes: Sizes) -> Seen:
    """What is known about a mask for these sizes."""
    if mask is None:
        return _ALL_SEEN
    parts = conjuncts(mask)
    traced = torch.compiler.is_compiling()
    if not traced and sizes.queries == 1:
        parts = [part for part in parts if not _is_of_the_past(part)]
    # A comparison of sizes would tie a traced call to them; only a causal mask by itself gains by it there.
    square = (not traced or (len(parts) == 1 and isinstance(parts[0], Causal))) and sizes.queries == sizes.keys
    if not traced and sizes.queries * sizes.keys >= _LARGE and not transformed():
        parts = [part for one in parts if (part := _read(one, sizes)) is not None]
    lower = [part for part in parts if square and isinstance(part, Causal)]
    beside = [part for part in parts if part not in lower]
    windows = [part for part in beside if square and isinstance(part, Window)]
    lengths = [part for part in beside if isinstance(part, _READ)]
    known = [*windows[:1], *lengths[:1]]
    window = (windows[0].left, windows[0].right) if windows else None
    return Seen(
        causal=bool(lower),
        lengths=lengths[0].known if lengths else None,
        asked=bool(lengths) and isinstance(lengths[0], _RaggedLengths),
        window=(window[0], 0) if window and lower else window,
        rest=joined([part for part in beside if part not in known]),
        beside_causal=joined(beside),
        mask=joined(parts),
    )


_ALL_SEEN = Seen(False, None, False, None, None, None, None)


def _is_of_the_past(part: Mask) -> bool:
    """A causal mask whose last query stands at the last key: a single one sees all of them."""
    return isinstance(part, Causal) and part.anchor == "end"


class _Lengths(Padding):
    """Padding whose lengths were read: real keys come first."""

    def __init__(self, lengths: Tensor) -> None:
        super().__init__(lengths.clone(), None)  # the caller's may change before the weights are made
        self.known: tuple[int, ...] = tuple(lengths.tolist())


class _RaggedLengths(Ragged):
    """Ragged items whose lengths were read."""

    def __init__(self, lengths: Tensor) -> None:
        super().__init__(lengths.clone())
        self.known: tuple[int, ...] = tuple(lengths.tolist())


_READ = (_Lengths, _RaggedLengths)


def _read(part: Mask, sizes: Sizes) -> Mask | None:
    """The same mask as a simpler one, None for one that hides nothing; itself where it is not known to be any."""
    if isinstance(part, Keep):
        return _of_tensor(part, sizes)
    if isinstance(part, _OF_LENGTHS):
        return _of_padding(part, sizes)
    return part


def _of_tensor(part: Keep, sizes: Sizes) -> Mask | None:
    """Causal for a lower triangle, None for nothing but True."""
    tensor = part.tensor
    ambiguous = part.raw and sizes.batch == sizes.queries and sizes.batch > 1
    shape = (sizes.queries, sizes.keys)
    if not _readable(tensor) or tensor.shape[-2:] != shape or (tensor.ndim == 2 and ambiguous):
        return part
    if tensor.ndim == 3 and tensor.shape[0] not in (1, sizes.batch):
        return part
    if tensor.ndim == 4 and (tensor.shape[0] not in (1, sizes.batch) or tensor.shape[1] not in (1, sizes.heads)):
        return part
    # The first row tells most masks apart before the rest is read.
    first = tensor[..., 0, :]
    if bool(first.all()):
        return None if bool(tensor.all()) else part
    lower = sizes.queries == sizes.keys and bool(first[..., 0].all()) and not bool(first[..., 1:].any())
    if lower and bool((tensor == torch.ones(shape, dtype=torch.bool, device="cpu").tril()).all()):
        return causal()
    return part


def _of_padding(part: Padding | Ragged, sizes: Sizes) -> Mask | None:
    if isinstance(part, _READ):
        return part
    lengths = part.lengths
    if isinstance(part, Padding) and part.kept is not None:
        if not _readable(part.kept) or tuple(part.kept.shape) != (sizes.batch, sizes.keys):
            return part
        lengths = part.kept.sum(-1)
        if not bool((part.kept == (torch.arange(sizes.keys, device="cpu") < lengths[:, None])).all()):
            return part  # padding on the left, or anywhere
    assert lengths is not None
    if not _readable(lengths) or tuple(lengths.shape) != (sizes.batch,) or lengths.is_floating_point():
        return part
    if sizes.batch == 0 or int(lengths.min()) < 0 or int(lengths.max()) > sizes.keys:
        return part
    if isinstance(part, Ragged):
        if sizes.queries != sizes.keys:
            return part  # drawing it says what is wrong
        return None if int(lengths.min()) == sizes.keys else _RaggedLengths(lengths)
    return None if int(lengths.min()) == sizes.keys else _Lengths(lengths)


def _readable(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and is_readable(tensor)
