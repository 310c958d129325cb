"""What is known about a mask: fast paths know causal masks, lengths and windows, and need no table of queries × keys.

Only what can be read off cheaply is known, and of a tensor of bools only in calls that are large enough to gain by it.
Everything else is drawn as a table.
"""

import functools
import operator
from array import array
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attended import transformed
from regard.attention.parts.mask_kinds import Causal, Joined, Keep, Mask, Padding, Ragged, Sizes, Window
from regard.attention.parts.masks import causal
from regard.kernels.autograd.plain import is_readable

_LARGE = 2**16
"""From so many queries × keys on reading a mask of bools costs little beside the call; lengths are always read."""

_PLACED, _OF_LENGTHS = (Causal, Window), (Padding, Ragged)


class MaskSummary(NamedTuple):
    """A mask taken apart; all parts must agree.

    Attributes:
        causal: query i attends to no key beyond i, as many queries as keys.
        lengths: the keys of each item that are real and come first, or None for all.
        ragged_queries: whether only as many queries of each item attend to anything.
        window: the positions before and after its own that a query attends to, as many queries as keys; or None.
        rest: everything else, to be drawn.
        beside_causal: all of it without `causal`.
        mask: all of it again, without what masks nothing out and without the caller's tensors where they were read.
    """

    causal: bool
    lengths: tuple[int, ...] | None
    ragged_queries: bool
    window: tuple[int, int] | None
    rest: Mask | None
    beside_causal: Mask | None
    mask: Mask | None

    # Methods and no properties: torch 2.9 takes no property of a tuple into a graph.

    def none_fully_masked(self) -> bool:
        """Whether it is known that each query attends to some key: the first one, if there are keys."""
        return (
            self.rest is None
            and self.window is None
            and not self.ragged_queries
            and not (self.lengths and 0 in self.lengths)
        )

    def ragged(self) -> bool:
        """Whether all that it masks out, but for what is causal, is behind each item's own keys."""
        return self.lengths is not None and self.rest is None and self.window is None


class DecomposedMask(NamedTuple):
    """A mask taken apart for the native loop, which knows more: where a query stands may be any key.

    Attributes:
        causal: query i attends to no key beyond i + offset.
        offset: the key at which query 0 stands.
        window: the positions before and after its own that a query attends to, or None for all.
        lengths: the keys of each item that are real and come first, or None for all.
        query_lengths: likewise the queries that attend to anything.
        known: all that the above say, as a mask that no caller can change.
        rest: everything else, to be drawn.
    """

    causal: bool
    offset: int
    window: tuple[int, int] | None
    lengths: tuple[int, ...] | None
    query_lengths: tuple[int, ...] | None
    known: Mask | None
    rest: Mask | None


def decompose(mask: Mask | None, sizes: Sizes) -> DecomposedMask:
    """Take a mask apart into what the native loop knows by itself and what it must be given as a table."""
    if mask is None:
        return _WHOLE
    placed: list[Causal | Window] = []
    lengths: list[Lengths | RaggedLengths] = []
    rest: list[Mask] = []
    for conjunct in conjuncts(mask):
        part = _of_padding(conjunct, sizes) if isinstance(conjunct, _OF_LENGTHS) else conjunct
        if isinstance(part, _PLACED) and (not placed or part.anchor == placed[0].anchor):
            placed.append(part)
        elif isinstance(part, _READ):
            lengths.append(part)
        elif part is not None:
            rest.append(part)
    offset = sizes.keys - sizes.queries if placed and placed[0].anchor == "end" else 0
    windows = [part for part in placed if isinstance(part, Window)]
    return DecomposedMask(
        causal=len(windows) < len(placed),
        offset=offset,
        window=(min(part.left for part in windows), min(part.right for part in windows)) if windows else None,
        lengths=_least([part.known for part in lengths]),
        query_lengths=_least([part.known for part in lengths if isinstance(part, RaggedLengths)]),
        known=joined([*placed, *lengths]),
        rest=joined(rest),
    )


_WHOLE = DecomposedMask(False, 0, None, None, None, None, None)


def _least(lengths: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The least length of each item."""
    return tuple(map(min, *lengths)) if len(lengths) > 1 else lengths[0] if lengths else None


def conjuncts(mask: Mask | None) -> list[Mask]:
    """The masks that must all agree: `a & b & c` taken apart."""
    if mask is None:
        return []
    if isinstance(mask, Joined) and mask.sign == "&":
        return [*conjuncts(mask.left), *conjuncts(mask.right)]
    return [mask]


def joined(masks: list[Mask]) -> Mask | None:
    """Their conjunction: the mask under which a query attends to what all of them allow; None for no masks."""
    return functools.reduce(operator.and_, masks) if masks else None


def summarize(mask: Mask, sizes: Sizes) -> MaskSummary:
    """What is known about a mask for these sizes."""
    parts = conjuncts(mask)
    # A comparison of sizes would tie a traced call to them; only a causal mask by itself gains by it there.
    if torch.compiler.is_compiling():
        square = len(parts) == 1 and isinstance(parts[0], Causal) and sizes.queries == sizes.keys
    else:
        parts = _simplified(parts, sizes)
        square = sizes.queries == sizes.keys
    lower, window, lengths = False, None, None
    beside: list[Mask] = []
    rest: list[Mask] = []
    for part in parts:
        if square and isinstance(part, Causal):
            lower = True
            continue
        beside.append(part)
        if square and window is None and isinstance(part, Window):
            window = part.left, part.right
        elif lengths is None and isinstance(part, _READ):
            lengths = part
        else:
            rest.append(part)
    return MaskSummary(
        causal=lower,
        lengths=None if lengths is None else lengths.known,
        ragged_queries=isinstance(lengths, RaggedLengths),
        window=(window[0], 0) if window is not None and lower else window,
        rest=joined(rest),
        beside_causal=joined(beside),
        mask=joined(parts),
    )


NO_MASK = MaskSummary(False, None, False, None, None, None, None)


def drawn_already(keep: Tensor) -> tuple[Mask, MaskSummary]:
    """A mask as it was drawn for a call, `(batch or 1, [heads or 1,] queries or 1, keys)`, and its summary."""
    mask = _Drawn(keep if keep.ndim == 4 else keep.unsqueeze(1))
    return mask, NO_MASK._replace(rest=mask, beside_causal=mask, mask=mask)


def _simplified(parts: list[Mask], sizes: Sizes) -> list[Mask]:
    """The same masks as simpler ones, without those that mask nothing out."""
    if sizes.queries == 1:
        parts = [part for part in parts if not _is_of_the_past(part)]
    large = sizes.queries * sizes.keys >= _LARGE and not transformed()
    return [part for one in parts if (part := _read(one, sizes, large)) is not None]


def _is_of_the_past(part: Mask) -> bool:
    """A causal mask whose last query stands at the last key: a single one attends to all of them."""
    return isinstance(part, Causal) and part.anchor == "end"


class _Drawn(Mask):
    """A mask that was drawn for the call and is nobody else's."""

    def __init__(self, drawn: Tensor) -> None:
        self.drawn = drawn

    def draw(self, sizes: Sizes, device: torch.device) -> Tensor:
        return self.drawn


class Lengths(Padding):
    """Padding whose lengths were read: real keys come first. The caller's may change before the weights are made."""

    def __init__(self, known: tuple[int, ...]) -> None:
        super().__init__(None, None)
        self.known = known

    def draw(self, sizes: Sizes, device: torch.device) -> Tensor:
        """See `Mask.draw`."""
        return _drawn(self.known, sizes.keys, device)


class RaggedLengths(Ragged):
    """Ragged items whose lengths were read, likewise."""

    def __init__(self, known: tuple[int, ...]) -> None:
        self.known = known

    def draw(self, sizes: Sizes, device: torch.device) -> Tensor:
        """See `Mask.draw`."""
        real = _drawn(self.known, sizes.keys, device)
        return real & real.transpose(-2, -1)


def _drawn(known: tuple[int, ...], keys: int, device: torch.device) -> Tensor:
    """Keys before each item's length. A decoder's steps have the same lengths: a few small masks are kept."""
    small = len(known) * keys <= _SMALL and not torch._C._len_torch_dispatch_stack()  # a mode owns what it makes
    return _cached_table(known, keys, device).clone() if small else _table(known, keys, device)


_SMALL = 2**14
"""Bytes of a mask that is kept: with 16 of them a quarter of a mebibyte."""


def _table(known: tuple[int, ...], keys: int, device: torch.device) -> Tensor:
    lengths = torch.frombuffer(array("q", known), dtype=torch.int64)
    return torch.arange(keys, device=device) < lengths.to(device).view(-1, 1, 1, 1)


_cached_table = functools.lru_cache(maxsize=16)(_table)


_READ = (Lengths, RaggedLengths)


def _read(part: Mask, sizes: Sizes, large: bool) -> Mask | None:
    """The same mask as a simpler one, None for one that masks nothing out; itself where it is not known to be any."""
    if not large and (isinstance(part, Keep) or (isinstance(part, Padding) and part.kept is not None)):
        return part
    if isinstance(part, Keep):
        return _of_tensor(part, sizes)
    return _of_padding(part, sizes) if isinstance(part, _OF_LENGTHS) else part


def _of_tensor(part: Keep, sizes: Sizes) -> Mask | None:
    """Causal for a lower triangle, None for nothing but True."""
    tensor = part.tensor
    ambiguous = part.raw and sizes.batch == sizes.queries and sizes.batch > 1
    shape = (sizes.queries, sizes.keys)
    if not _readable(tensor) or tensor.shape[-2:] != shape or (tensor.ndim == 2 and ambiguous):
        return part
    if tensor.ndim > 4 or (tensor.ndim == 3 and tensor.shape[0] not in (1, sizes.batch)):
        return part
    if tensor.ndim == 4 and (tensor.shape[0] not in (1, sizes.batch) or tensor.shape[1] not in (1, sizes.heads)):
        return part
    # The first row distinguishes most masks before the rest is read.
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
    known = lengths.tolist()
    low = min(known, default=-1)
    if low < 0 or max(known) > sizes.keys:
        return part  # drawing it says what is wrong
    if isinstance(part, Padding):
        return None if low == sizes.keys else Lengths(tuple(known))
    if sizes.queries != sizes.keys:
        return part  # likewise
    return None if low == sizes.keys else RaggedLengths(tuple(known))


def _readable(tensor: Tensor) -> bool:
    return tensor.is_cpu and is_readable(tensor)
