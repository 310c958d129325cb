"""The facts of a call that its cost depends on, read off its shapes and parts; nothing is computed."""

import math
from typing import Any, NamedTuple

import torch

from regard.attention.call.mask_summary import decompose
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.normalize import normalizers
from regard.attention.parts.score import Additive, Cosine, Dot, General, Location, PerHead
from regard.kernels.fallback.windowed import block_rows


class Workload(NamedTuple):
    """What the formulas take: counts of numbers, and bytes.

    Attributes:
        weights: batch × heads × queries × keys.
        pairs: those of them that a path which knows the mask computes.
        compared: multiply-adds of a pair's score.
        width: of what is compared.
        value_width: of what is read.
        prepared: multiply-adds of what is made of each query and each key before they meet.
        query: numbers of all queries; `key`, `value` and `context` likewise.
        made: numbers that the score makes of queries and keys.
        of_all_heads: numbers of keys and values once for each head of the queries, 0 where they are not grouped.
        given: bytes of a number as given.
        wide: bytes of a number as computed with.
        in_chunks: weights are made for some queries at a time.
        in_native_loop: and weighed and read as they are made, by a native loop.
        table: pairs × hidden units of an additive score, 0 for others.
        normalizer: its name.
        dropout: whether weights are dropped.
        masked: bools of the mask that the path must be drawn.
        bias: bytes of the bias as computed with, and of its gradient if it needs one.
        positions: queries and keys of all heads.
        window: keys of a block of a window, and queries of one head; None where there is none.
    """

    weights: int
    pairs: int
    compared: int
    width: int
    value_width: int
    prepared: int
    query: int
    key: int
    value: int
    context: int
    made: int
    of_all_heads: int
    given: int
    wide: int
    in_chunks: bool
    in_native_loop: bool
    table: int
    normalizer: str
    dropout: bool
    masked: int
    bias: tuple[int, int]
    positions: int
    window: tuple[int, int] | None

    @property
    def gradients(self) -> int:
        """Bytes of what goes up and comes down: of the context, queries, keys, values and the bias."""
        return (self.query + self.key + self.value + self.context) * self.given + self.bias[1]


def workload_of(call: Any, path: str) -> Workload:
    """The facts of a checked call (a `Call`) for one path."""
    sizes = call.sizes
    key_heads = call.key.shape[1] if call.key.ndim == 4 else 1
    queries, keys = sizes.batch * sizes.heads * sizes.queries, sizes.batch * key_heads * sizes.keys
    value_width = 0 if call.value is None else call.value.shape[-1]
    score = getattr(call.score, "score", call.score)  # without what is bound to it
    side = _side(score, call, queries, keys)
    if path == "native" and type(score) is Cosine:  # the loop divides by lengths; a learned strength is made before
        side = side._replace(made=2 * queries * side.width if isinstance(score.strength, torch.Tensor) else 0)
    table = 0
    if isinstance(score, Additive):
        table = math.prod(sizes) * score.hidden_dim
    given = call.query.element_size()
    grouped = sizes.heads != key_heads
    window = None
    if path == "windowed":
        left, right = call.summary.window
        window = block_rows(left, right) + left + right, sizes.queries
    return Workload(
        weights=math.prod(sizes),
        pairs=_pairs(call, path, window),
        compared=side.compared,
        width=side.width,
        value_width=value_width,
        prepared=side.prepared,
        query=call.query.numel(),
        key=call.key.numel(),
        value=0 if call.value is None else call.value.numel(),
        context=queries * value_width,
        made=side.made,
        of_all_heads=sizes.batch * sizes.heads * sizes.keys * (side.width + value_width) if grouped else 0,
        given=given,
        wide=max(4, given),
        in_chunks=path == "additive" and call.takes_query_chunks(),
        in_native_loop=path == "additive" and call.attends_natively(),
        table=table,
        normalizer=name_of(call.normalizer),
        dropout=call.dropout > 0,
        masked=_masked(call, path),
        bias=_bias(call, max(4, given)),
        positions=keys + queries,
        window=window,
    )


class _Side(NamedTuple):
    """What a score does: see `Workload`."""

    compared: int
    width: int
    prepared: int
    made: int


def _side(score: Any, call: Any, queries: int, keys: int) -> _Side:
    """A score of the caller's own is counted as a dot product."""
    width, key_width = call.query.shape[-1], call.key.shape[-1]
    to_prepare = keys if call.prepared is None else 0
    if isinstance(score, Additive):
        hidden = score.hidden_dim
        made = queries * width * hidden + to_prepare * key_width * hidden
        return _Side(hidden, hidden, made, (queries + keys) * hidden)
    if isinstance(score, General):
        inner = key_width if score.rank is None else score.rank
        made = queries * width * inner + (0 if score.rank is None else to_prepare * key_width * inner)
        return _Side(inner, inner, made, (queries + (0 if score.rank is None else keys)) * inner)
    if isinstance(score, PerHead):
        each = [_side(one, call, queries // len(score.each), keys // len(score.each)) for one in score.each]
        return _Side(each[0].compared, each[0].width, sum(one.prepared for one in each), sum(one.made for one in each))
    if isinstance(score, Location):
        return _Side(width, width, 0, 0)
    if isinstance(score, Dot):
        return _Side(width, width, 0, 0)
    # A unit vector is made in several steps, each of which is held.
    return _Side(width, width, 0, (queries + keys) * width * (2 if isinstance(score, Cosine) else 1))


def _bias(call: Any, wide: int) -> tuple[int, int]:
    if call.bias is None:
        return 0, 0
    size = call.bias.numel() * wide
    return size, size if call.bias.requires_grad else 0


def _pairs(call: Any, path: str, window: tuple[int, int] | None) -> int:
    """How many pairs the path computes, all heads."""
    sizes = call.sizes
    if window is not None:
        width, queries = window
        rows = width - sum(call.summary.window)
        return sizes.batch * sizes.heads * -(-queries // rows) * rows * width
    if path == "native":
        known = decompose(call.mask, sizes)
        left, right = known.window or (sizes.keys + sizes.queries,) * 2
        right = min(right, 0) if known.causal else right
        offset = known.offset
    else:
        known, offset = call.summary, 0
        triangle = path in ("blocked", "ragged", "linear") or (path == "fused" and known.beside_causal is None)
        left, right = sizes.keys + sizes.queries, 0 if known.causal and triangle else sizes.keys + sizes.queries
    lengths = known.lengths if path in ("native", "ragged") else None
    places = torch.arange(sizes.queries, device="cpu") + offset  # whatever device is the default now
    total = 0
    for length in lengths or (sizes.keys,) * sizes.batch:
        last, first = (places + right + 1).clamp(0, length), (places - left).clamp(min=0)
        total += int((last - first).clamp(min=0).sum())
    return total * sizes.heads


def _masked(call: Any, path: str) -> int:
    """Bools of the mask as the path is given it."""
    of_path: dict[str, Mask | None] = {
        "blocked": call.summary.beside_causal,
        "native": decompose(call.mask, call.sizes).rest,
        "fused": None if call.summary.causal and call.summary.beside_causal is None else call.mask,
    }
    mask = of_path.get(path)
    if mask is None:
        return 0
    try:
        return int(mask.draw(call.sizes, torch.device("meta")).untyped_storage().nbytes())
    except (RuntimeError, NotImplementedError):  # a function that must see numbers: at most this
        return math.prod(call.sizes)


def name_of(normalizer: Any) -> str:
    """The name of a normalizer; empty for one of the caller's own."""
    return next((name for name in normalizers if normalizers.maker(name) is type(normalizer)), "")
