"""The facts of a call that its cost depends on, read off its shapes and parts; nothing is computed."""

import math
from typing import Any, NamedTuple

import torch

from regard.attention.call.call import Call, name_of
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.score import Additive, Cosine, Dot, General, Location, PerHead


class Workload(NamedTuple):
    """What the formulas take: counts of numbers, and bytes.

    Attributes:
        weights: batch × heads × queries × keys.
        compared: multiply-adds of a pair's score.
        width: of what is compared.
        value_width: of what is read.
        prepared: multiply-adds of what is made of each query and each key before they meet.
        query: numbers of all queries; `key`, `value` and `context` likewise.
        made: numbers that the score makes of queries and keys.
        of_all_heads: numbers of keys and values once for each head of the queries, 0 where they are not grouped.
        given: bytes of a number as given.
        wide: bytes of a number as computed with.
        in_blocks: the score goes through its pairs block by block.
        table: pairs × hidden units of an additive score, 0 for others.
        normalizer: its name.
        dropout: whether weights are dropped.
        bias: bytes of the bias as computed with, and of its gradient if it needs one.
        positions: queries and keys of all heads.
    """

    weights: int
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
    in_blocks: bool
    table: int
    normalizer: str
    dropout: bool
    bias: tuple[int, int]
    positions: int

    @property
    def gradients(self) -> int:
        """Bytes of what goes up and comes down: of the context, queries, keys, values and the bias."""
        return (self.query + self.key + self.value + self.context) * self.given + self.bias[1]


def workload_of(call: Call) -> Workload:
    """The facts of a checked call."""
    sizes = call.sizes
    key_heads = call.key.shape[1] if call.key.ndim == 4 else 1
    queries, keys = sizes.batch * sizes.heads * sizes.queries, sizes.batch * key_heads * sizes.keys
    value_width = 0 if call.value is None else call.value.shape[-1]
    score = getattr(call.score, "score", call.score)  # without what is bound to it
    side = _side(score, call, queries, keys)
    table = 0
    if isinstance(score, Additive):
        table = math.prod(sizes) * score.hidden_dim
    given = call.query.element_size()
    grouped = sizes.heads != key_heads
    return Workload(
        weights=math.prod(sizes),
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
        in_blocks=call.score.in_blocks(call.query, sizes.keys) is not None,
        table=table,
        normalizer=name_of(call.normalizer),
        dropout=call.dropout > 0,
        bias=_bias(call, max(4, given)),
        positions=keys + queries,
    )


class _Side(NamedTuple):
    """What a score does: see `Workload`."""

    compared: int
    width: int
    prepared: int
    made: int


def _side(score: Any, call: Call, queries: int, keys: int) -> _Side:
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


def _bias(call: Call, wide: int) -> tuple[int, int]:
    if call.bias is None:
        return 0, 0
    size = call.bias.numel() * wide
    return size, size if call.bias.requires_grad else 0


def pairs(
    call: Call,
    *,
    causal: bool,
    lengths: tuple[int, ...] | None = None,
    window: tuple[int, int] | None = None,
    offset: int = 0,
) -> int:
    """How many queries × keys of all heads a path computes that knows these parts of the mask.

    Args:
        call: a checked one.
        causal: query i attends to no key beyond i + offset.
        lengths: the keys of each item.
        window: the positions before and after its own that a query attends to.
        offset: the key at which query 0 stands.
    """
    sizes = call.sizes
    left, right = window or (sizes.keys + sizes.queries,) * 2
    right = min(right, 0) if causal else right
    places = torch.arange(sizes.queries, device="cpu") + offset  # whatever device is the default now
    total = 0
    for length in lengths or (sizes.keys,) * sizes.batch:
        last, first = (places + right + 1).clamp(0, length), (places - left).clamp(min=0)
        total += int((last - first).clamp(min=0).sum())
    return total * sizes.heads


def drawn_bools(call: Call, mask: Mask | None) -> int:
    """Bools of a mask as a path is given it."""
    if mask is None:
        return 0
    try:
        return int(mask.draw(call.sizes, torch.device("meta")).untyped_storage().nbytes())
    except (RuntimeError, NotImplementedError):  # a function that must see numbers: at most this
        return math.prod(call.sizes)
