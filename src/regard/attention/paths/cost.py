"""What a call costs, before it is made: its operations and its memory, by formulas of its sizes alone.

Operations are the multiply-adds of matrix products, counted as 2 as torch's own counter has them; an additive score's
sum over hidden units is such a product,
and exponentials and additions are not counted. Memory is the peak beyond what the caller holds already, the answer and
the gradients included: right within a factor of two above some 16 MiB.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.call.mask_summary import conjuncts
from regard.attention.parts.mask_kinds import Keep
from regard.attention.paths import choose
from regard.attention.paths.workload import Workload, workload_of
from regard.errors import SlowPathWarning
from regard.kernels.fallback import blocked, query_chunks
from regard.kernels.linear import linear

LARGE = 2**28
"""Bytes of all weights at once from which on a path that forms them is worth a warning."""

# How many numbers a weight the normalizers hold at their peak, forwards and with gradients, measured.
_HELD = {
    "softmax": (4.5, 4.5),
    "sigmoid": (4.5, 4.5),
    "sum": (4.5, 6.5),
    "identity": (3.5, 3.5),
    "hard": (4.8, 4.8),
    "sample": (5.8, 6.8),
    "gumbel": (6.8, 7.8),
    "sparsemax": (7.5, 9.5),
    "entmax15": (10.5, 14.5),
}
_DRAWING = 10  # bytes for each of a mask's bools while it is drawn: positions are whole numbers of 64 bits


@dataclass(frozen=True)
class Cost:
    """What one path would take for a call.

    Attributes:
        path: its name.
        operations: multiply-adds of products, counted as 2, of the forward pass.
        operations_with_gradients: those of both ways.
        bytes: the most memory at once beyond what is held before, in the forward pass.
        bytes_with_gradients: likewise, on both ways.
        operations_grow: what operations are proportional to, in words.
        bytes_grow: what memory is proportional to, in words.
    """

    path: str
    operations: int
    operations_with_gradients: int
    bytes: int
    bytes_with_gradients: int
    operations_grow: str
    bytes_grow: str

    def __str__(self) -> str:
        operations = _in_units(self.operations, self.operations_with_gradients, _OPERATIONS)
        memory = _in_units(self.bytes, self.bytes_with_gradients, _BYTES)
        return f"{self.path}: {operations}, as {self.operations_grow}; {memory} at the peak, as {self.bytes_grow}"


def costs(call: Any, path: str) -> tuple[Cost, Cost]:
    """What a checked call costs by a path, and by the one that forms all weights.

    Args:
        call: a `Call`.
        path: the one that it takes. A normalizer of the caller's own is counted as softmax; what steps of `refocus=`
            hold themselves is not counted.
    """
    work = workload_of(call, path)
    return _PATHS[path](work), _explicit(work)


# --- the paths: one function each -----------------------------------------------------------------------------------

_SQUARE, _LENGTH = "queries × keys × heads", "positions × width × heads"


def _explicit(work: Workload) -> Cost:
    made = work.weights * (work.compared + work.value_width) + work.prepared
    forward, backward = _formed(work, work.weights)
    table = work.table * work.wide
    growing = f"{_SQUARE} × {'hidden units' if table else 'width'}"
    return Cost(
        "explicit",
        2 * made,
        6 * made,
        max(table, forward),
        # The table's sigmoids are kept; the backward pass holds the gradients of two steps beside them.
        max(3 * table, backward),
        growing,
        growing if table else _SQUARE,
    )


def _formed(work: Workload, weights: int) -> tuple[int, int]:
    """Bytes where so many weights are formed at once."""
    held = _HELD.get(work.normalizer, _HELD["softmax"])
    narrowed = 2 * weights * work.given if work.given < work.wide else 0
    around = (work.made + work.of_all_heads) * work.wide + work.context * work.given
    dropped = weights * work.wide if work.dropout else 0
    forward, backward = (int(weights * work.wide * numbers) + narrowed + around for numbers in held)
    return forward, backward + dropped + work.gradients


def _additive(work: Workload) -> Cost:
    beside = work.weights * work.value_width + work.prepared
    forward_operations = 2 * work.weights * work.compared
    again = forward_operations if work.in_chunks else 0
    at_once = 0 if work.in_native_loop else min(work.weights, query_chunks.PART) if work.in_chunks else work.weights
    forward, backward = _formed(work, at_once)
    sides = 2 * work.made * work.wide  # projected, and their exponentials
    several = work.context * work.given if work.in_chunks else 0  # the parts, then the whole
    return Cost(
        "additive",
        2 * beside + forward_operations,
        6 * beside + 3 * forward_operations + again,
        forward + sides + several,
        backward + 2 * sides + 2 * at_once * work.wide + several,  # the scores' gradient beside those of the weights
        f"{_SQUARE} × hidden units",
        "positions × hidden units" if work.in_chunks else _SQUARE,
    )


def _by_tiles(path: str, held: Callable[[Workload], tuple[int, int]], words: str) -> Callable[[Workload], Cost]:
    """A path of dot products that keeps no weights: the backward pass makes the scores again.

    Args:
        path: its name.
        held: bytes beyond answers and gradients, in the forward pass and on both.
        words: what its operations grow with.
    """

    def cost(work: Workload) -> Cost:
        made = work.pairs * (work.width + work.value_width) + work.prepared
        masked = _DRAWING * work.masked + work.bias[0] * (2 if work.masked else 1)
        made_wide = work.made * work.wide
        narrow = (work.query + work.key + work.value + work.context) * 4 if work.given < 4 else 0
        forward, backward = held(work)
        answer = work.context * work.given
        return Cost(
            path,
            2 * made,
            6 * made + 2 * work.pairs * work.width,
            answer + made_wide + narrow + masked + forward,
            answer + 2 * made_wide + 2 * narrow + masked + backward + work.gradients,
            words,
            f"{_LENGTH}, and the mask as queries × keys" if work.masked else _LENGTH,
        )

    return cost


def _of_blocks(work: Workload) -> tuple[int, int]:
    block = min(work.weights, blocked.BLOCK) * work.wide
    alike = work.of_all_heads * work.given
    return 10 * block + alike, 12 * block + 2 * alike


def _of_parts(work: Workload) -> tuple[int, int]:
    """Items one by one, then laid together."""
    return work.context * work.given, (work.query + work.key + work.value + work.context) * work.given


def _of_windows(work: Workload) -> tuple[int, int]:
    assert work.window is not None
    width, queries = work.window
    mask = 2 * queries * width * work.wide
    alike = work.of_all_heads * work.given
    return mask + alike + work.context * work.given, 4 * mask + 2 * alike + work.context * work.given


def _packed(work: Workload) -> tuple[int, int]:
    """Keys and values of the loop, laid as it wants them, and its sums."""
    packed = (work.key + work.value) * work.wide // 2
    return packed, 2 * packed


def _linear(work: Workload) -> Cost:
    """Sums of features × values; a causal one forms the scores of a chunk."""
    sums = work.positions * work.width * (work.value_width + 1)
    chunk = linear.CHUNK if work.pairs < work.weights else 0
    within = work.query // max(1, work.width) * chunk * (work.width + work.value_width + 1)
    made = sums + within
    copies = (work.query + work.key + work.value) * work.wide
    return Cost(
        "linear",
        2 * made,
        6 * made + 2 * sums,
        work.context * work.given + copies,
        work.context * work.given + 2 * copies + work.gradients,
        "positions × width² × heads",
        _LENGTH,
    )


_NOTHING: Callable[[Workload], tuple[int, int]] = lambda work: (0, 0)  # noqa: E731
_WIDTHS = f"{_SQUARE} × width"
_PATHS: dict[str, Callable[[Workload], Cost]] = {
    "explicit": _explicit,
    "additive": _additive,
    "linear": _linear,
    "fused": _by_tiles("fused", _NOTHING, _WIDTHS),
    "blocked": _by_tiles("blocked", _of_blocks, _WIDTHS),
    "ragged": _by_tiles("ragged", _of_parts, "queries × own keys × heads × width"),
    "windowed": _by_tiles("windowed", _of_windows, "positions × window × heads × width"),
    "native": _by_tiles("native", _packed, "queries × keys seen × heads × width"),
}


# --- no surprise ----------------------------------------------------------------------------------------------------

# What to do about a reason, by the words that it begins with.
_MENDED = {
    "the score or the normalizer has hooks": "Hook the whole attention, or give it some queries at a time",
    "refocus=": "Give it some queries at a time, or leave it out",
    "dropout=": "Leave it out, or call outside autocast and torch.func on a CPU, where it is taken in blocks",
    "inside vmap": "Call it on a batch instead of inside the transform",
    "something masked": "Clear what is masked out before the call (a NaN or inf among padding, say)",
    "the normalizer": "Softmax with a number as temperature needs none of it; with others take some queries at a time",
    "the score": "Dot products, general, cosine and additive need none of it; with others take some queries at a time",
    "mask=": "causal, padding and window, each or joined by &, need no drawing where a native loop serves",
}
_warned: set[str] = set()


def warn_of_memory(choice: choose.Choice, call: Any, drawn: Tensor | None, *, stacklevel: int) -> None:
    """Say, once for each reason, that a call falls to memory of queries × keys, what causes it and what to do.

    Nothing is said of weights that take less than `LARGE` bytes, of a pointer (its weights are the answer), nor while
    a call is traced.

    Args:
        choice: the path and its reasons.
        call: a `Call`.
        drawn: the mask as it was drawn for the path, if it was.
        stacklevel: of `warnings.warn`: how far up the caller of `attend` is.
    """
    if math.prod(call.sizes) * 4 < LARGE or torch.compiler.is_compiling() or call.value is None:
        return
    for reason in _causes(choice, call, drawn):
        if reason in _warned:
            continue
        _warned.add(reason)
        warnings.warn(_warning(choice, call, reason, drawn), SlowPathWarning, stacklevel=stacklevel)


def _causes(choice: choose.Choice, call: Any, drawn: Tensor | None) -> list[str]:
    """Why queries × keys are held at once; none where they are not."""
    if choice.path == "explicit":
        return list(choice.reasons)
    if choice.path == "additive" and not call.takes_query_chunks():
        causes = ["refocus= changes the weights after they are normalised"] if call.refocus else []
        if call.normalizer.draws or isinstance(call.normalizer.temperature, Tensor):
            causes.append("the normalizer draws, or has a tensor as its temperature")
        return causes or (["the score is bound to arguments of this call"] if call.sizes.queries > 1 else [])
    own = any(isinstance(mask, Keep) for mask in conjuncts(call.mask))
    if drawn is not None and not own and drawn.shape[-2] == call.sizes.queries and drawn.numel() >= LARGE:
        return [f"mask= is drawn: {call.mask}"]
    return []


def _warning(choice: choose.Choice, call: Any, reason: str, drawn: Tensor | None) -> str:
    if choice.path in ("explicit", "additive"):
        shape = " × ".join(f"{size:,}" for size in call.sizes)
        cost, _ = costs(call, choice.path)
        weights = _mebibytes(math.prod(call.sizes) * max(4, call.query.element_size()))
        takes = (
            f"{weights} MiB of weights (batch × heads × queries × keys = {shape}) are formed, and about "
            f"{_mebibytes(cost.bytes_with_gradients)} MiB held at the peak with gradients"
        )
    else:
        assert drawn is not None
        takes = f"{_mebibytes(drawn.numel())} MiB of bools are drawn, {tuple(drawn.shape)}"
    advice = next((advice for words, advice in _MENDED.items() if reason.startswith(words)), "")
    return (
        f"{reason}: {takes}. {advice or 'Take some queries at a time'}. regard.explain(…, cost=True) predicts a call; "
        "this is said once"
    )


_OPERATIONS = ((10**9, "billion operations"), (10**6, "million operations"), (1, "operations"))
_BYTES = ((2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))


def _in_units(one: int, other: int, units: tuple[tuple[int, str], ...]) -> str:
    """Both numbers in the largest unit that the first one reaches."""
    size, name = next((unit for unit in units if one >= unit[0]), units[-1])
    first, second = (
        f"{number / size:,.0f}" if number >= 100 * size else f"{number / size:.3g}" for number in (one, other)
    )
    return f"{first} ({second} with gradients) {name}"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f}"
