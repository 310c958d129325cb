"""The kinds of mask, drawn for a call's sizes; `masks.py` has the functions that make them, and the rules."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import MaskError
from regard.kernels.autograd.plain import is_readable


class Sizes(NamedTuple):
    """What a mask is drawn for; `heads` is 1 where the call has no head axis."""

    batch: int
    heads: int
    queries: int
    keys: int


class Mask:
    """The base of all masks."""

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """The mask for these sizes, `(batch or 1, heads or 1, queries or 1, keys)`, True where the query may attend."""
        raise NotImplementedError

    def __and__(self, other: "MaskLike") -> "Mask":
        return Joined(self, as_mask(other), torch.logical_and, "&")

    def __or__(self, other: "MaskLike") -> "Mask":
        return Joined(self, as_mask(other), torch.logical_or, "|")

    def __rand__(self, other: "MaskLike") -> "Mask":
        return as_mask(other) & self

    def __ror__(self, other: "MaskLike") -> "Mask":
        return as_mask(other) | self

    def __invert__(self) -> "Mask":
        return Inverted(self)


_MAKERS = "regard.attention.parts.masks"
"""The functions that make masks: to give one of them in place of what it makes is an error of its own."""

MaskLike = Mask | Tensor | Callable[..., Any]


def as_mask(given: Any) -> Mask:
    """A Mask from what the user gave: a Mask, a bool tensor (by the rule of `keep`), or a `mask_mod(b, h, q, k)`.

    Raises:
        MaskError: it is none of these, or a function of `masks` that was not called.
    """
    if isinstance(given, Mask):
        return given
    if isinstance(given, Tensor):
        return Keep(given, raw=True)
    if callable(given):
        if getattr(given, "__module__", None) == _MAKERS:
            raise MaskError(f"masks.{given.__name__} makes a mask; call it: masks.{given.__name__}(…)")
        return Function(given)
    raise MaskError(
        f"a mask must be one of regard.masks, a bool tensor (True = may attend) or a function of (b, h, q, k); "
        f"it was {type(given).__name__}"
    )


class Joined(Mask):
    """Two masks in one, by "and" or by "or"."""

    def __init__(self, left: Mask, right: Mask, join: Callable[[Tensor, Tensor], Tensor], sign: str) -> None:
        self.left, self.right, self.join, self.sign = left, right, join, sign

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """Both drawn, then joined; see `Mask.draw`."""
        return self.join(self.left.draw(sizes, device), self.right.draw(sizes, device))

    def __repr__(self) -> str:
        return f"({self.left} {self.sign} {self.right})"


class Inverted(Mask):
    """True where the inner mask is False."""

    def __init__(self, inner: Mask) -> None:
        self.inner = inner

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """The inner mask inverted; see `Mask.draw`."""
        return ~self.inner.draw(sizes, device)

    def __repr__(self) -> str:
        return f"~{self.inner}"


class Causal(Mask):
    """`masks.causal`: keys up to the query's own position."""

    def __init__(self, anchor: str) -> None:
        self.anchor = anchor

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`."""
        return _offset(sizes, self.anchor, device) <= 0

    def __repr__(self) -> str:
        return f"causal({self.anchor})"


class Window(Mask):
    """`masks.window`: keys from `left` before the query's own position to `right` after it."""

    def __init__(self, left: int, right: int, anchor: str) -> None:
        self.left, self.right, self.anchor = left, right, anchor

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`."""
        offset = _offset(sizes, self.anchor, device)
        return (offset >= -self.left) & (offset <= self.right)

    def __repr__(self) -> str:
        return f"window({self.left}, {self.right})"


class Around(Mask):
    """`masks.around`: keys at most `radius` positions from a center (Luong 2015, section 3.2)."""

    def __init__(self, center: Tensor | float, radius: float) -> None:
        self.center, self.radius = center, radius

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        # Key positions are whole numbers that float32 holds exactly to 2^24; half precision stops at 256.
        """See `Mask.draw`.

        Raises:
            MaskError: centers that are not one for each query.
        """
        double = isinstance(self.center, Tensor) and self.center.dtype == torch.float64
        center = torch.as_tensor(self.center, device=device).to(torch.float64 if double else torch.float32)
        if center.ndim not in (0, 2, 3):
            raise MaskError(
                f"around() takes a center of shape (batch, queries) or (batch, heads, queries), here "
                f"{(sizes.batch, sizes.queries)}; it was {tuple(center.shape)}"
            )
        if center.ndim == 2:
            _check_shape("around() center", center, (sizes.batch, sizes.queries))
            center = center[:, None]
        elif center.ndim == 3:
            _check_shape("around() center", center, (sizes.batch, sizes.heads, sizes.queries))
        else:
            center = center.reshape(1, 1, 1)
        positions = torch.arange(sizes.keys, device=device, dtype=center.dtype)
        # A center that was computed misses a whole number by a rounding or two; its edge keys are still in.
        number = torch.finfo(center.dtype)
        slack = 8 * number.eps * center.abs().clamp(1.0, number.max)  # nothing is near a center at infinity
        return (positions - center[..., None]).abs() <= (self.radius + slack)[..., None]

    def __repr__(self) -> str:
        return f"around(radius={self.radius})"


class Padding(Mask):
    """`masks.padding`: the real keys of each item, the first ones or those of a bool tensor `(batch, keys)`."""

    def __init__(self, lengths: Tensor | None, keep: Tensor | None) -> None:
        self.lengths, self.kept = lengths, keep

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`.

        Raises:
            MaskError: not one length or row for each item; a length below 0 or above the number of keys.
        """
        if self.kept is not None:
            _check_shape("padding(keep=…)", self.kept, (sizes.batch, sizes.keys))
            return self.kept.to(device)[:, None, None, :]
        lengths = self.lengths
        assert lengths is not None
        _check_shape("padding(lengths)", lengths, (sizes.batch,))
        if lengths.is_cpu and is_readable(lengths) and (known := lengths.tolist()):
            low, high = min(known), max(known)
            if low < 0 or high > sizes.keys:
                raise MaskError(f"lengths must lie between 0 and the {sizes.keys} keys; they go from {low} to {high}")
        return torch.arange(sizes.keys, device=device) < lengths.to(device).view(-1, 1, 1, 1)

    def __repr__(self) -> str:
        return "padding"


class Ragged(Mask):
    """`masks.ragged`: the first n queries attend to the first n keys of each item."""

    def __init__(self, lengths: Tensor) -> None:
        self.lengths = lengths

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`.

        Raises:
            MaskError: as many queries as keys are needed; lengths that do not fit.
        """
        if sizes.queries != sizes.keys:
            raise MaskError(
                f"ragged(lengths) is for self-attention, but there are {sizes.queries} queries and "
                f"{sizes.keys} keys. For the keys alone write padding(lengths)"
            )
        real = Padding(self.lengths, None).draw(sizes, device)
        return real & real.transpose(-2, -1)

    def __repr__(self) -> str:
        return "ragged"


class Prefix(Mask):
    """`masks.prefix`: keys before a position."""

    def __init__(self, length: int | Tensor) -> None:
        self.length = length

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`.

        Raises:
            MaskError: not one number for each item.
        """
        positions = torch.arange(sizes.keys, device=device)
        if isinstance(self.length, int) or self.length.ndim == 0:
            return (positions < self.length)[None, None, None, :]
        _check_shape("prefix(n)", self.length, (sizes.batch,))
        return (positions < self.length.to(device)[:, None])[:, None, None, :]

    def __repr__(self) -> str:
        return "prefix"


class Document(Mask):
    """`masks.document`: keys with the same id as the query."""

    def __init__(self, ids: Tensor) -> None:
        self.ids = ids

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`.

        Raises:
            MaskError: not one id for each key; more queries than keys.
        """
        ids = self.ids.to(device)
        ids = ids[None] if ids.ndim == 1 else ids
        _check_shape("document(ids)", ids, (sizes.batch, sizes.keys))
        if sizes.queries > sizes.keys:
            raise MaskError(
                f"document(ids) takes the last queries for the last keys, but there are {sizes.queries} queries and "
                f"{sizes.keys} keys; for two different texts write a function of (b, h, q, k)"
            )
        of_query = ids[:, sizes.keys - sizes.queries :]
        return (of_query[:, :, None] == ids[:, None, :])[:, None]

    def __repr__(self) -> str:
        return "document"


class Keep(Mask):
    """`masks.keep`: a bool tensor, True where the query may attend to the key."""

    def __init__(self, tensor: Tensor, raw: bool = False) -> None:
        check_bool("a mask", tensor)
        self.tensor, self.raw = tensor, raw

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`.

        Raises:
            MaskError: a shape that does not fit, or one that fits in two ways.
        """
        tensor = self.tensor.to(device)
        batch, heads, queries, keys = sizes
        expected = f"({queries}, {keys}), ({batch}, {queries}, {keys}) or ({batch}, {heads}, {queries}, {keys})"
        if tensor.ndim == 2:
            if self.raw and batch == queries and batch > 1:
                # Both readings fit; taking the wrong one would be silent.
                raise MaskError(
                    f"a bool tensor of shape {tuple(tensor.shape)} can be (queries, keys) or (batch, keys) here; say "
                    "which: masks.keep(tensor) for (queries, keys), masks.padding(keep=tensor) for (batch, keys)"
                )
            if tensor.shape == (queries, keys):
                return tensor.expand(1, 1, -1, -1)
        elif tensor.ndim == 3 and _fits(tensor, (batch, queries, keys)):
            return tensor[:, None].expand(-1, -1, -1, keys)
        elif tensor.ndim == 4 and _fits(tensor, (batch, heads, queries, keys)):
            return tensor.expand(-1, -1, -1, keys)
        hint = ""
        if tensor.shape == (batch, keys):
            hint = ". It looks like (batch, keys): write masks.padding(keep=mask)"
        raise MaskError(f"the mask has shape {tuple(tensor.shape)}; expected {expected}{hint}")

    def __repr__(self) -> str:
        return f"keep{tuple(self.tensor.shape)}"


class Function(Mask):
    """A `mask_mod(b, h, q, k)` of the caller's, called with whole numbers that broadcast."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def draw(self, sizes: Sizes, device: torch.device) -> Bool[Tensor, "b h q k"]:
        """See `Mask.draw`.

        Raises:
            MaskError: it returns no bools, or a shape that does not fit.
        """
        axes = []
        for axis, size in enumerate(sizes):
            shape = [1, 1, 1, 1]
            shape[axis] = size
            axes.append(torch.arange(size, device=device).reshape(shape))
        drawn = self.function(*axes)
        name = getattr(self.function, "__name__", "the mask function")
        if not isinstance(drawn, Tensor):
            drawn = torch.as_tensor(drawn, device=device)
        check_bool(f"what {name}(b, h, q, k) returned", drawn)
        drawn = drawn.reshape((1,) * (4 - drawn.ndim) + tuple(drawn.shape))
        if not _fits(drawn, sizes):
            raise MaskError(f"{name}(b, h, q, k) returned shape {tuple(drawn.shape)}; expected {tuple(sizes)}")
        return drawn.expand(-1, -1, -1, sizes.keys)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", "function")


# --- checks ---------------------------------------------------------------------------------------------------------


def _offset(sizes: Sizes, anchor: str, device: torch.device) -> Int[Tensor, "1 1 q k"]:
    """Key position minus the query's own position."""
    start = sizes.keys - sizes.queries if anchor == "end" else 0
    of_query = torch.arange(start, start + sizes.queries, device=device).view(1, 1, -1, 1)
    return torch.arange(sizes.keys, device=device) - of_query


def check_bool(what: str, tensor: Tensor) -> None:
    """Whether a mask's tensor holds bools.

    Raises:
        MaskError: it holds numbers; with what to write instead.
    """
    if tensor.dtype == torch.bool:
        return
    if tensor.is_floating_point():
        advice = "numbers to add to the scores go in bias=; for a mask of 0 and 1 write mask.bool() (1 = may attend)"
    else:
        advice = (
            "write mask.bool() if 1 means that the query may attend to the key, mask == 0 if 1 means that it may not"
        )
    raise MaskError(f"{what} must be bool (True = may attend); it is {tensor.dtype}. {advice[0].upper()}{advice[1:]}")


def _check_shape(what: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != expected and not (tensor.shape[:1] == (1,) and tuple(tensor.shape[1:]) == expected[1:]):
        raise MaskError(f"{what} has shape {tuple(tensor.shape)}; expected {expected}")


def _fits(tensor: Tensor, sizes: tuple[int, ...]) -> bool:
    """Each axis has the call's size, or 1 for "the same for all"."""
    return all(have in (want, 1) for have, want in zip(tensor.shape, sizes, strict=True))
