"""Products with a window of rows for each query, as local attention has them: no score of any other key is made.

`dots` scores a window's keys, `mix` reads its values, `spread` gives to its rows. Each is the gradient of the other
two, so they can be differentiated again and again. A native loop (`local.cpp`) reads the windows where they lie.
Without a compiler narrow windows are bags of rows, which torch has for the vectors of words and reads where they lie as
well; queries with wide ones meet their rows in blocks.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.autograd.plain import materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.local import loops

_MANY = 8
_TIMES = {"torch": 3.5, "torch's spread": 6.0, "dots": 1.5, "mix": 3.0, "spread": 3.0}
"""Of so many queries, products with all rows are faster where these are less than so many times the window's: measured,
for torch's own calls and for each of the native loops."""

_NARROW = 64
"""Without a compiler windows of up to so many rows are faster one by one than in blocks, as measured."""

_SOME = 32
_SPAN = 16
"""Without a compiler so many sorted queries at a time meet their rows, if these are at most so many windows."""

_BLOCK = 2**18
"""Numbers of the rows of half precision that are copied side by side, to be widened: a mebibyte of float32."""


def dots(
    left: Float[Tensor, "batch queries width"],
    rows: Float[Tensor, "batch rows width"],
    first: Int[Tensor, "batch queries"],
    window: int,
) -> Float[Tensor, "batch queries {window}"]:
    """`left · row` for each row of each query's window; as all three, of plain calls on a CPU.

    Nothing checks that the shapes fit and the windows lie within the rows: a loop would read elsewhere in memory.

    Args:
        left: query vectors.
        rows: in float32, float64 or half precision, of which products and sums are float32, as of all here.
        first: where a query's window begins; it lies within the rows.
        window: how many rows it has, at least one.
    """
    way: Any = _Dots.apply if torch.is_grad_enabled() else _dots  # an operation that keeps nothing takes longer
    made: Tensor = way(left, rows, first, window)
    return made


def mix(
    weights: Float[Tensor, "batch queries window"],
    rows: Float[Tensor, "batch rows width"],
    first: Int[Tensor, "batch queries"],
) -> Float[Tensor, "batch queries width"]:
    """`Σ weight · row` over each query's window; see `dots`."""
    way: Any = _Mix.apply if torch.is_grad_enabled() else _mix
    made: Tensor = way(weights, rows, first)
    return made


def spread(
    weights: Float[Tensor, "batch queries window"],
    left: Float[Tensor, "batch queries width"],
    first: Int[Tensor, "batch queries"],
    rows: int,
) -> Float[Tensor, "batch {rows} width"]:
    """`Σ weight · left` for each of so many rows, over the queries in whose window it is; see `dots`."""
    way: Any = _Spread.apply if torch.is_grad_enabled() else _spread
    made: Tensor = way(weights, left, first, rows)
    return made


def _dots(left: Tensor, rows: Tensor, first: Tensor, window: int) -> Tensor:
    left, rows = _wide(left).contiguous(), in_rows(rows)
    out = left.new_empty(*first.shape, window)
    native = is_native(left, rows)
    if is_dense(first.shape[1], rows.shape[1], window, "dots" if native else "torch"):
        products = torch.bmm(left, _wide(rows).mT)
        if window == rows.shape[1]:
            return products
        torch.gather(products, -1, first.unsqueeze(-1) + torch.arange(window, device="cpu"), out=out)
    elif native:
        loops.dots(**_windows(rows, first, window), left=left, matrix=rows, out=out)
    elif (bags := Bags.narrow(rows, first, window)) is not None:
        out = bags.dots(left)
    elif (blocks := _Blocks.of(first, rows.shape[1], window)) is not None:
        sorted_left = blocks.sorted(left)
        for block, of, places in blocks:
            products = _wide(rows[of]) @ sorted_left[block].mT  # twice as fast as its transpose
            torch.gather(products.mT, -1, places, out=out[block])
        out = blocks.unsorted(out)
    elif (bags := Bags.of(rows, first, window)) is not None:
        out = bags.dots(left)
    else:
        for part, some in _copied(rows, first, window):
            torch.bmm(some, left.flatten(0, 1)[part].unsqueeze(-1), out=out.view(-1, window, 1)[part])
    return out


def _mix(weights: Tensor, rows: Tensor, first: Tensor) -> Tensor:
    weights, rows = _wide(weights).contiguous(), in_rows(rows)
    out = weights.new_empty(*first.shape, rows.shape[-1])
    native, window = is_native(weights, rows), weights.shape[-1]
    narrow = window <= _NARROW and rows.dtype is torch.float32  # torch adds float64 up one number after the other
    if is_dense(first.shape[1], rows.shape[1], window, "mix" if native else "torch"):
        torch.bmm(_among_all(weights, first, rows.shape[1]), _wide(rows), out=out)
    elif native:
        loops.mix(**_windows(rows, first, window), weights=weights, matrix=rows, out=out)
    elif narrow and (bags := Bags.of(rows, first, window)) is not None:
        out = bags.mix(weights)
    elif (blocks := _Blocks.of(first, rows.shape[1], window)) is not None:
        weights = blocks.sorted(weights)
        for block, of, places in blocks:
            torch.mm(blocks.among(weights[block], of, places), _wide(rows[of]), out=out[block])
        out = blocks.unsorted(out)
    elif (bags := Bags.of(rows, first, window)) is not None:
        out = bags.mix(weights)
    else:
        for part, some in _copied(rows, first, window):
            torch.bmm(weights.flatten(0, 1)[part].unsqueeze(1), some, out=out.flatten(0, 1).unsqueeze(1)[part])
    return out


def _spread(weights: Tensor, left: Tensor, first: Tensor, rows: int) -> Tensor:
    weights, left = _wide(weights).contiguous(), _wide(left).contiguous()
    native = is_native(weights, left)
    if is_dense(first.shape[1], rows, weights.shape[-1], "spread" if native else "torch's spread"):
        return torch.bmm(_among_all(weights, first, rows).mT, left)
    into = left.new_zeros(left.shape[0], rows, left.shape[-1])
    if native:
        loops.spread(**_windows(into, first, weights.shape[-1]), weights=weights, left=left, into=into)
    elif (blocks := _Blocks.of(first, rows, weights.shape[-1])) is not None:
        weights, left = blocks.sorted(weights), blocks.sorted(left)
        for block, of, places in blocks:
            into[of].addmm_(blocks.among(weights[block], of, places).mT, left[block])
    else:
        flat, window = into.flatten(0, 1), weights.shape[-1]
        for part in _parts(first.numel(), window * left.shape[-1]):
            given = weights.flatten(0, 1)[part].unsqueeze(-1) * left.flatten(0, 1)[part].unsqueeze(1)
            flat.index_add_(0, _places(first, rows, window, part), given.flatten(0, 1))
    return into


_WHAT = "local attention"


class _Dots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, rows: Tensor, first: Tensor, window: int) -> Tensor:
        ctx.save_for_backward(left, rows, first)
        return _dots(left, rows, first, window)

    @staticmethod
    @unbatched
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        left, rows, first = ctx.saved_tensors
        (given,) = materialized(_WHAT, given)
        with _as_it_is():
            to_left = mix(given, rows, first).to(left.dtype) if ctx.needs_input_grad[0] else None
            to_rows = spread(given, left, first, rows.shape[1]).to(rows.dtype) if ctx.needs_input_grad[1] else None
        return to_left, to_rows, None, None


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, rows: Tensor, first: Tensor) -> Tensor:
        ctx.save_for_backward(weights, rows, first)
        return _mix(weights, rows, first)

    @staticmethod
    @unbatched
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        weights, rows, first = ctx.saved_tensors
        (given,) = materialized(_WHAT, given)
        window, to_weights = weights.shape[-1], None
        with _as_it_is():
            if ctx.needs_input_grad[0]:
                to_weights = dots(given, rows, first, window).to(weights.dtype)
            to_rows = spread(weights, given, first, rows.shape[1]).to(rows.dtype) if ctx.needs_input_grad[1] else None
        return to_weights, to_rows, None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, left: Tensor, first: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(weights, left, first)
        return _spread(weights, left, first, rows)

    @staticmethod
    @unbatched
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        weights, left, first = ctx.saved_tensors
        (given,) = materialized(_WHAT, given)
        window, to_weights = weights.shape[-1], None
        with _as_it_is():
            if ctx.needs_input_grad[0]:
                to_weights = dots(left, given, first, window).to(weights.dtype)
            to_left = mix(weights, given, first).to(left.dtype) if ctx.needs_input_grad[1] else None
        return to_weights, to_left, None, None


def _as_it_is() -> torch.autocast:
    """Autocast around a backward pass would narrow its products."""
    return torch.autocast("cpu", enabled=False)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def in_rows(rows: Tensor) -> Tensor:
    """With the numbers of a row side by side, as memory has them."""
    rows = rows.resolve_neg()
    return rows if rows.stride(-1) == 1 or rows.shape[-1] == 1 else rows.contiguous()


def is_dense(queries: int, rows: int, window: int, way: str = "torch") -> bool:
    """Whether one product with all rows is faster than many with windows: these are most of them, for many queries."""
    return queries >= _MANY and _TIMES[way] * window > rows


def _among_all(weights: Tensor, first: Tensor, rows: int) -> Tensor:
    """The weights of all rows, 0 outside the window."""
    if weights.shape[-1] == rows:
        return weights
    places = first.unsqueeze(-1) + torch.arange(weights.shape[-1], device="cpu")
    return weights.new_zeros(*first.shape, rows).scatter_(-1, places, weights)


_DOTS = getattr(torch.ops.aten, "_embedding_bag_per_sample_weights_backward", None)
"""An operation of torch's own use, with whose absence one can live."""


class Bags(NamedTuple):
    """Windows as torch's sums of words' vectors have them: a matrix of all rows, and which of them each window holds.

    Attributes:
        rows: (any, width), the rows of all items and what may lie between them.
        places: of the windows' rows among these, one window after the other.
        begins: of the windows among the places.
        shape: batch, queries, window.
        lie: how the rows of the items do: shape and strides.
    """

    rows: Tensor
    places: Tensor
    begins: Tensor
    shape: tuple[int, int, int]
    lie: tuple[tuple[int, ...], tuple[int, ...]]

    @staticmethod
    def narrow(rows: Tensor, first: Tensor, window: int) -> "Bags | None":
        """Of windows that are faster one by one than in blocks or with all rows."""
        few = window <= _NARROW and not is_dense(first.shape[1], rows.shape[1], window)
        return Bags.of(in_rows(rows), first, window) if few else None

    def of_others(self, rows: Tensor) -> "Bags | None":
        """The same windows of float32 rows that lie as these do; None where they lie otherwise."""
        alike = rows.dtype is torch.float32 and (rows.shape, rows.stride()) == self.lie and not rows.is_neg()
        return self._replace(rows=rows.as_strided(self.rows.shape, self.rows.stride())) if alike else None

    @staticmethod
    def of(rows: Tensor, first: Tensor, window: int) -> "Bags | None":
        """None where there is nothing to add up, it would be added up in half precision, or torch has no such sums."""
        lie = (batch, count, width), (item, row, _) = rows.shape, rows.stride()
        if not (first.numel() and width and _DOTS and rows.dtype in (torch.float32, torch.float64)):
            return None
        if item % width or row % width:
            rows, item, row = rows.contiguous(), count * width, width
            lie = rows.shape, rows.stride()  # of the copy: what lies as the rows before it is not read by its places
        item, row = item // width, row // width
        start = row * first.numpy() + (item * np.arange(batch))[:, None]  # a small call of numpy's begins sooner
        places = (start[..., None] + row * np.arange(window)).reshape(-1)
        begins = np.arange(0, places.size, window)
        matrix = rows.as_strided(((batch - 1) * item + (count - 1) * row + 1, width), (width, 1))
        return Bags(matrix, torch.from_numpy(places), torch.from_numpy(begins), (*first.shape, window), lie)

    def dots(self, left: Tensor) -> Tensor:
        """Of each query and the rows of its window: what torch has for the gradient of the weights in `mix`."""
        assert _DOTS is not None
        found: Tensor = _DOTS(left.flatten(0, 1), self.rows, self.places, self.begins, self.begins[:0], 0)
        return found.view(self.shape)

    def mix(self, weights: Tensor) -> Tensor:
        """Each query's weighted sum of the rows of its window, `(batch, queries, width)`."""
        summed = torch.embedding_bag(self.rows, self.places, self.begins, False, 0, False, weights.flatten())[0]
        return summed.view(*self.shape[:2], self.rows.shape[-1])


class _Blocks:
    """Queries in the order of their windows, some at a time: all rows from their first window to their last meet them.

    Going through it gives where each block lies among the sorted queries, where its rows lie among all, and where its
    windows lie among its rows.
    """

    def __init__(self, first: Tensor, window: int) -> None:
        first, order = first.sort(-1)
        self.order = (order + first.shape[1] * torch.arange(len(first), device="cpu").unsqueeze(-1)).flatten()
        self.places = first.unsqueeze(-1) + torch.arange(window, device="cpu")
        self.begins, self.ends = first[:, ::_SOME].tolist(), (first[:, _SOME - 1 :: _SOME] + window).tolist()
        if first.shape[1] % _SOME:
            for ends, last in zip(self.ends, first[:, -1].tolist(), strict=True):
                ends.append(last + window)

    @staticmethod
    def of(first: Tensor, rows: int, window: int) -> "_Blocks | None":
        """None where copies of the windows are faster: there are few queries, or their windows lie far apart."""
        if first.shape[1] < _MANY or not first.numel():
            return None
        blocks = _Blocks(first, window)
        spans = sum(map(sum, blocks.ends)) - sum(map(sum, blocks.begins))
        return blocks if spans <= _SPAN * window * sum(map(len, blocks.begins)) else None

    def __iter__(self) -> Iterator[tuple[tuple[int, slice], tuple[int, slice], Tensor]]:
        for item, (begins, ends) in enumerate(zip(self.begins, self.ends, strict=True)):
            for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
                block = item, slice(number * _SOME, (number + 1) * _SOME)
                yield block, (item, slice(begin, end)), self.places[block] - begin

    def sorted(self, queries: Tensor) -> Tensor:
        return queries.flatten(0, 1).index_select(0, self.order).view(queries.shape)

    def unsorted(self, queries: Tensor) -> Tensor:
        flat = queries.flatten(0, 1)
        return torch.empty_like(flat).index_copy_(0, self.order, flat).view(queries.shape)

    def among(self, weights: Tensor, rows: tuple[int, slice], places: Tensor) -> Tensor:
        """The weights of a block among all of its rows, 0 outside the windows."""
        _, of = rows
        return weights.new_zeros(len(weights), of.stop - of.start).scatter_(1, places, weights)


def _parts(queries: int, numbers: int) -> Iterator[slice]:
    """Some queries at a time, each of which takes so many numbers."""
    step = max(1, _BLOCK // max(1, numbers))
    for start in range(0, queries, step):
        yield slice(start, start + step)


def _places(first: Tensor, rows: int, window: int, part: slice) -> Tensor:
    """Where the rows of some queries' windows lie among those of all items."""
    item = torch.arange(first.numel(), device="cpu")[part] // max(1, first.shape[1])
    start = item * rows + first.flatten()[part]
    return (start.unsqueeze(-1) + torch.arange(window, device="cpu")).flatten()


def _copied(rows: Tensor, first: Tensor, window: int) -> Iterator[tuple[slice, Tensor]]:
    """The windows of some queries side by side, (some, window, width), widened; the next ones overwrite them."""
    flat, width = rows.flatten(0, 1), rows.shape[-1]
    held = None
    for part in _parts(first.numel(), window * width):
        places = _places(first, rows.shape[1], window, part)
        if held is None:
            held = flat.new_empty(places.numel(), width)
        some = torch.index_select(flat, 0, places, out=held[: places.numel()])
        yield part, _wide(some).view(len(places) // window, window, width)


def is_native(one: Tensor, other: Tensor) -> bool:
    """Whether a native loop takes these numbers: it knows one type, float32 or float64."""
    return one.dtype == other.dtype and loops.LIBRARY.serves(one.dtype)


def _windows(rows: Tensor, first: Tensor, window: int) -> dict[str, Any]:
    """What the loops of products are given first."""
    first, order = first.contiguous(), torch.arange(first.numel(), device="cpu")
    if first.shape[1] > 1:
        order = order.view(first.shape)[:, :1] + first.argsort(-1)
    batch, queries = first.shape
    sizes = {"batch": batch, "queries": queries, "rows": rows.shape[1], "window": window, "width": rows.shape[-1]}
    return {**sizes, "first": first, "order": order}
