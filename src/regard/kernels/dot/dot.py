"""Softmax of dot products in one native loop: what `scaled_dot_product_attention` computes, and what it does slowly.

Torch's fused kernel refuses dropout, a bias that is learned, three axes, a last stride that is not 1 and values of
another width, and knows no lengths or windows. The loop (`dot.cpp`) packs keys and values as it wants them, so that
none of this costs much, and computes no tile of queries × keys that is masked out. The backward pass makes the weights
again; dropout draws from a counter, so that it finds the same draws.

The softmax is made while its keys come (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"), in
tiles that stay in a cache, with the weights recomputed backward (Dao et al. 2022, FlashAttention; Dao 2023).
"""

import math
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd.once_differentiable import once_differentiable
from regard.kernels.autograd.plain import is_plain, materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.dot import dropout_mask, loops
from regard.kernels.dot.amx import half

_FAR = 2**40  # a window beyond all keys
NO_DIRECTIONS = False, False


class Visible(NamedTuple):
    """Which keys each query may attend to; all parts must agree.

    Attributes:
        causal: query i attends to no key beyond i + offset.
        offset: the key at which query 0 stands.
        window: query i attends to the keys i + offset − left … i + offset + right, or None for all.
        lengths: the keys of each item that are real and come first, or None for all.
        keep: what may be attended to, broadcastable to (batch, [heads,] queries, keys), or None for all.
        query_lengths: the queries of each item that attend to anything and come first, or None for all.
    """

    causal: bool
    offset: int
    window: tuple[int, int] | None
    lengths: Sequence[int] | None
    keep: Bool[Tensor, "..."] | None
    query_lengths: Sequence[int] | None = None


class SafetyCheck:
    """Whether the numbers that a call reads are finite, and so moderate that no dot product of theirs overflows.

    It doesn't read keys and values behind `lengths`, nor queries behind `query_lengths`: these may hold anything.
    """

    def __init__(self) -> None:
        self.found = array("q", (0,))

    @property
    def safe(self) -> bool:
        """Once the call is done."""
        return not self.found[0]


def serves(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the loop takes this call: a plain one on a CPU, all of one type, where the loop could be built.

    Without content (meta) a call is judged as if it were on a CPU.
    """
    kind = query.dtype
    known = (query.is_cpu or query.is_meta) and kind in loops.KINDS
    if not (known and key.dtype is kind and value.dtype is kind):
        return False
    return is_plain(query) and loops.serve(kind)


_SIDE, _SIDE_DROPPED, _PAIRS = 48, 16, 2**15
"""Queries and keys from which the loop is faster than torch's kernel, both ways; the same where torch has no kernel,
with dropout; and pairs of all heads."""


def is_worthwhile(sizes: tuple[int, int, int, int], dropout: float) -> bool:
    """Whether a call is so large that the loop is faster.

    Args:
        sizes: batch, heads, queries, keys.
        dropout: the rate.
    """
    batch, heads, queries, keys = sizes
    side = _SIDE_DROPPED if dropout > 0 else _SIDE
    return queries >= side and keys >= side and batch * heads * queries * keys >= _PAIRS


def attention(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*key_lead keys dim"],
    value: Float[Tensor, "*key_lead keys value_dim"],
    *,
    visible: Visible,
    bias: Float[Tensor, "..."] | None,
    scale: float,
    dropout: float,
    seed: int | None = None,
    directions: tuple[bool, bool] = NO_DIRECTIONS,
    check: SafetyCheck | None = None,
) -> Float[Tensor, "*lead queries value_dim"]:
    """`dropout(softmax(scale · q kᵀ + bias, masked out where not visible)) v`. Can be differentiated once.

    Args:
        query: query vectors, `(batch, [heads,] queries, dim)`, of any strides.
        key: key vectors; its heads divide the query's.
        value: value vectors.
        visible: which keys each query may attend to. Masked-out content must be finite.
        bias: added to the scores, broadcastable to `(batch, [heads,] queries, keys)`, of any type.
        scale: of the products.
        dropout: the rate, rounded to a multiple of 2^-32.
        seed: what it draws by; None draws one.
        directions: whether queries, and keys, are divided by their lengths first; float32 and float64 only.
        check: records whether the numbers that are read are safe; likewise.

    Returns:
        The context, contiguous, in the query's type: half types are computed in float32 and rounded at last. A query
        that is fully masked gets a zero context, and so does one whose scores are all −inf.
    """
    assert (directions == NO_DIRECTIONS and check is None) or query.dtype in (torch.float32, torch.float64)
    if seed is None:
        seed = dropout_mask.new_seed() if dropout > 0 and not query.is_meta else 0
    call = _Call(visible, scale, round(dropout * dropout_mask.STEPS), seed, directions, check)
    inputs = _as_stored(query, key, value, bias)
    if needs_gradient(*inputs):
        context: Tensor = _Dot.apply(*inputs, visible.keep, call)
        return context
    return _forward(*inputs, visible.keep, call, None)


def _as_stored(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """With the signs that memory has, and the bias in the type that is computed in."""
    query, key, value = query.resolve_neg(), key.resolve_neg(), value.resolve_neg()
    return query, key, value, None if bias is None else bias.resolve_neg().to(_work(query))


def needs_gradient(*inputs: Tensor | None) -> bool:
    """Whether a gradient to any of them is wanted."""
    return torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in inputs)


def statistics(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*key_lead keys dim"],
    *,
    visible: Visible,
    bias: Float[Tensor, "..."] | None,
    scale: float,
    top: int,
    directions: tuple[bool, bool] = NO_DIRECTIONS,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What the weights of `attention` without dropout are like, in at least float32, without gradients.

    Args:
        query: query vectors, as are the others but for `top` as `attention` takes them.
        key: key vectors.
        visible: which keys each query may attend to.
        bias: added to the scores.
        scale: of the products.
        top: how many of each query's largest weights are wanted, at most all keys.
        directions: likewise.

    Returns:
        Of each query its entropy in nats and its largest weight `(*lead, queries)`; what each key gets from all
        queries together `(*lead, keys)`; each query's largest weights in descending order and the keys that have them
        `(*lead, queries, top)`. A fully masked query has zeros; masked-out keys come last, with 0.
    """
    return _observed(query, key, None, bias, _Call(visible, scale, 0, 0, directions), top)[1:]


def attention_and_statistics(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*key_lead keys dim"],
    value: Float[Tensor, "*key_lead keys value_dim"],
    *,
    visible: Visible,
    bias: Float[Tensor, "..."] | None,
    scale: float,
    top: int,
    directions: tuple[bool, bool] = NO_DIRECTIONS,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The context, and after it what `statistics` gives, from one product of queries and keys; without gradients."""
    context, *others = _observed(query, key, value, bias, _Call(visible, scale, 0, 0, directions), top)
    assert context is not None
    return context, *others


def _observed(
    query: Tensor, key: Tensor, value: Tensor | None, bias: Tensor | None, call: "_Call", top: int
) -> tuple[Any, Tensor, Tensor, Tensor, Tensor, Tensor]:
    work = _work(query)
    rows, lead = query.shape[:-1], query.shape[:-2]
    query, key, read, bias = _as_stored(query, key, key[..., :0] if value is None else value, bias)
    shapes = rows, rows, (*lead, key.shape[-2]), (*rows, top)
    entropy, maximum, received, top_weights = (query.new_empty(shape, dtype=work) for shape in shapes)
    top_keys = query.new_empty((*rows, top), dtype=torch.int64)
    context = None if value is None else query.new_empty((*rows, value.shape[-1]))
    if not query.is_meta:  # else nothing is there to be computed
        loops.of(query.dtype).statistics(
            **_given(query, key, read, bias, call.visible.keep, call),
            context=context,
            top=top,
            entropy=entropy,
            maximum=maximum,
            received=received,
            top_weights=top_weights,
            top_keys=top_keys,
        )
    return context, entropy, maximum, received, top_weights, top_keys


def _work(query: Tensor) -> torch.dtype:
    """The type that is computed in."""
    return torch.float64 if query.dtype is torch.float64 else torch.float32


class _Call(NamedTuple):
    visible: Visible
    scale: float
    dropped: int  # of 2^32 weights
    seed: int
    directions: tuple[bool, bool]
    check: SafetyCheck | None = None


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, keep: Tensor | None, call: _Call
    ) -> Tensor:
        normalizer = query.new_empty(query.shape[:-1], dtype=_work(query))
        context = _forward(query, key, value, bias, keep, call, normalizer)
        ctx.save_for_backward(query, key, value, bias, keep, context, normalizer)
        ctx.call = call
        return context

    @staticmethod
    @unbatched
    @once_differentiable(
        "the native loop of dot products; attend(…, refocus=[lambda weights: weights]) takes a path that has them"
    )
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, keep, context, normalizer = ctx.saved_tensors
        (upstream,) = materialized("the native loop of dot products", upstream)
        wanted = ctx.needs_input_grad[:4]
        found = _gradients(upstream, query, key, value, bias, keep, context, normalizer, wanted, ctx.call)
        return *found, None, None


def _gradients(
    upstream: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    keep: Tensor | None,
    context: Tensor,
    normalizer: Tensor,
    wanted: tuple[bool, ...],
    call: _Call,
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key, value and bias; None for those not wanted."""
    three = [
        one.new_empty(one.shape) if needed else None for one, needed in zip((query, key, value), wanted, strict=False)
    ]
    whole = bias is not None and bias.numel() == query.shape[:-1].numel() * key.shape[-2]  # it's not added to
    to_bias = (bias.new_empty if whole else bias.new_zeros)(bias.shape) if bias is not None and wanted[3] else None
    if not query.is_meta:
        loops.of(query.dtype).backward(
            **_given(query, key, value, bias, keep, call),
            context=context,
            normalizer=normalizer,
            upstream=upstream,
            to_query=three[0],
            to_key=three[1],
            to_value=three[2],
            to_bias=_of_heads(to_bias, query),
            bias_size=0 if bias is None else bias.numel(),
        )
    return *three, to_bias


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    keep: Tensor | None,
    call: _Call,
    normalizer: Tensor | None,
) -> Tensor:
    plain = bias is None and keep is None and call.visible.query_lengths is None and not call.dropped
    if plain and query.shape[-2] >= _UNIT_QUERIES and half.serves(query):
        return _by_matrix_unit(query, key, value, call, normalizer)
    context = query.new_empty((*query.shape[:-1], value.shape[-1]))
    if not query.is_meta:
        loops.of(query.dtype).forward(
            **_given(query, key, value, bias, keep, call), context=context, normalizer=normalizer
        )
    return context


_UNIT_QUERIES = 32  # below, laying keys out for the matrix unit takes longer than it gains


def _by_matrix_unit(query: Tensor, key: Tensor, value: Tensor, call: _Call, normalizer: Tensor | None) -> Tensor:
    """Half types on a processor that multiplies them by tiles."""
    visible, three, has_heads = call.visible, (query, key, value), query.ndim == 4
    each = three if has_heads else tuple(one.unsqueeze(1) for one in three)
    context, found = half.forward(
        *each,
        causal=visible.causal,
        offset=visible.offset,
        window=visible.window,
        lengths=visible.lengths,
        scale=call.scale,
        logarithms=normalizer is not None,
    )
    if normalizer is not None and found is not None:
        # The backward pass has powers of 2, and a fully masked query gives weights of 0.
        binary = found.mul_(math.log2(math.e)).masked_fill_(found == -torch.inf, torch.inf)
        normalizer.copy_(binary.view(normalizer.shape))
    return context if has_heads else context.squeeze(1)


# --- the native loop ----------------------------------------------------------------------------------------------

_MATRIX_UNIT = True
"""Whether float32 products are made by the processor's matrix unit, where it has one; tests say no."""


def _given(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, keep: Tensor | None, call: _Call
) -> dict[str, Any]:
    """What all loops are given first."""
    visible = call.visible
    before, after = (_FAR, _FAR) if visible.window is None else visible.window
    if visible.causal:
        after = min(after, 0)
    of_query, of_value = query.shape, value.shape
    heads, key_heads = (1, 1) if len(of_query) == 3 else (of_query[1], of_value[1])
    query_directions, key_directions = call.directions
    return {
        "batch": of_query[0],
        "heads": heads,
        "key_heads": key_heads,
        "queries": of_query[-2],
        "keys": of_value[-2],
        "dim": of_query[-1],
        "value_dim": of_value[-1],
        "unit": _MATRIX_UNIT,
        "query_directions": query_directions,
        "key_directions": key_directions,
        "offset": visible.offset,
        "before": min(before, _FAR),
        "after": min(after, _FAR),
        "lengths": None if visible.lengths is None else array("q", visible.lengths),
        "query_lengths": None if visible.query_lengths is None else array("q", visible.query_lengths),
        "dropped": call.dropped,
        "seed": call.seed,
        "unsafe": None if call.check is None else call.check.found,
        "scale": call.scale,
        "query": query,
        "key": key,
        "value": value,
        "keep": _of_heads(keep, query),
        "bias": _of_heads(bias, query),
    }


def _of_heads(of_pairs: Tensor | None, query: Tensor) -> Tensor | None:
    """What is broadcast to all pairs, with an axis of heads, of which there is one where a call has none."""
    return of_pairs.unsqueeze(1) if of_pairs is not None and query.ndim == of_pairs.ndim == 3 else of_pairs
