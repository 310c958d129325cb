"""Attention with additive scores in one native loop: no table of queries × keys, forwards or backwards.

`softmax((vᵀ tanh(a + b) + bias) · scale) · value` (Bahdanau 2015, A.1.2) block by block, the softmax as the keys come
(Milakov & Gimelshein 2018), and each block's scores again in the backward pass: memory grows with the length and not
with its square. The loop is `attend.cpp`; where there is no compiler, `query_chunks.py` takes some queries at a time.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.additive import additive
from regard.kernels.autograd.once_differentiable import once_differentiable
from regard.kernels.autograd.plain import is_plain, materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Input, Output

LEAST = 2**16
"""Pairs × hidden units from which on a call costs little more here than with its table of weights.

Measured beside `additive.py`, a softmax and a product: 1.0 to 1.3 of their time forwards and 1.0 to 1.2 with gradients,
for which scores are made again; up to 2.1 below it. The gain is memory.
"""

LIBRARY = Library("additive/attend", (torch.float32, torch.float64))
_PAIRS = ("batch", "heads", "queries", "keys")
_A, _B = ("batch", "heads", "queries", "wide"), ("batch", "key_heads", "keys", "wide")
_VALUE, _CONTEXT = ("batch", "key_heads", "keys", "values"), ("batch", "heads", "queries", "values")
_call = LIBRARY.structure(
    "AdditiveCall",
    **dict.fromkeys(("batch", "heads", "key_heads", "queries", "keys", "wide", "values"), INTEGER),
    threads=THREADS,
    causal=INTEGER,  # no query attends to a key behind its own place
    seed=INTEGER,
    scale=REAL,
    dropout=REAL,
    a=Input(*_A),
    b=Input(*_B),
    kept=Input(*_B, optional=True),  # exponentials of b
    v=Input("wide"),
    value=Input(*_VALUE),
    keep=Input(*_PAIRS, dtype=torch.bool, view=True, broadcast=True, optional=True),
    bias=Input(*_PAIRS, view=True, broadcast=True, optional=True),
)
_loop_forward = LIBRARY.loop(
    "additive_attend_forward", _call, out=Output(*_CONTEXT), logarithms=Output("batch", "heads", "queries")
)
_loop_backward = LIBRARY.loop(
    "additive_attend_backward",
    _call,
    out=Input(*_CONTEXT),
    logarithms=Input("batch", "heads", "queries"),
    g=Input(*_CONTEXT),
    da=Output(*_A),
    db=Output(*_B),
    dv=Output("batch", "key_heads", "wide"),
    dvalue=Output(*_VALUE),
    dbias=Output(*_PAIRS, view=True, broadcast=True, optional=True),
)


def serves(query: Tensor, pairs: int, width: int, values: int) -> bool:
    """Whether this path takes a call: a plain one on a CPU with a compiler, large enough not to lose time.

    Args:
        query: one of what the call is given. Without content (meta) it is judged as if it were on a CPU.
        pairs: queries × keys of all items and heads.
        width: hidden units.
        values: the width of a value.
    """
    if query.device.type not in ("cpu", "meta") or not is_plain(query):
        return False
    return values > 0 and pairs * width >= LEAST and LIBRARY.serves(torch.float32)


def attention(
    query: Float[Tensor, "batch *heads queries hidden"],
    key: Float[Tensor, "batch *key_heads keys hidden"],
    vector: Float[Tensor, " hidden"],
    value: Float[Tensor, "batch *key_heads keys value_dim"],
    *,
    keep: Bool[Tensor, "#batch *#heads #queries #keys"] | None = None,
    bias: Float[Tensor, "#batch *#heads #queries #keys"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    scale: float = 1.0,
    prepared: bool = False,
) -> Float[Tensor, "batch *heads queries value_dim"]:
    """Additive attention (Bahdanau 2015, A.1.2) by the native loop, in one type, float32 or float64.

    Can be differentiated once, with respect to all but the mask. A fully masked query gets a zero context.

    Args:
        query: a, projected.
        key: b, projected; the number of its heads divides that of the queries'.
        vector: v.
        value: value vectors.
        keep: True where a query may attend to a key.
        bias: added to the scores.
        causal: no query attends to a key after its own position; as many queries as keys.
        dropout: the rate at which weights are dropped; the others grow by as much.
        scale: 1 / temperature; it multiplies the scores and the bias.
        prepared: the keys were made ready for many calls, see `additive.additive_scores`.
    """
    four = query.ndim == 4
    # Kept by the keys as they are given: a view of them is another tensor at each call.
    exponentials = additive.key_exponentials(key) if prepared and query.shape[-2] < additive.MANY else None
    if not four:
        query, key, value = (one.unsqueeze(1) for one in (query, key, value))
        bias, keep = (None if one is None else one.unsqueeze(1) for one in (bias, keep))
    context: Tensor = _Attention.apply(query, key, vector, value, bias, keep, causal, dropout, scale, exponentials)
    return context if four else context.squeeze(1)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        vector: Tensor,
        value: Tensor,
        bias: Tensor | None,
        keep: Tensor | None,
        causal: bool,
        dropout: float,
        scale: float,
        exponentials: Tensor | None,
    ) -> Tensor:
        batch, heads, queries, _ = query.shape
        key_heads, keys = key.shape[1:3]
        seed = int(torch.randint(2**62, (), device="cpu")) if dropout > 0 else 0
        a, b, v, read = (additive.padded(one) for one in (query, key, vector, value))
        context, logarithms = a.new_empty(batch, heads, queries, read.shape[-1]), a.new_empty(batch, heads, queries)
        ctx.call = {
            "batch": batch,
            "heads": heads,
            "key_heads": key_heads,
            "queries": queries,
            "keys": keys,
            "wide": a.shape[-1],
            "values": read.shape[-1],
            "causal": causal,
            "seed": seed,
            "scale": scale,
            "dropout": dropout,
        }
        _loop_forward(
            **ctx.call,
            a=a,
            b=b,
            kept=exponentials,
            v=v,
            value=read,
            keep=keep,
            bias=bias,
            out=context,
            logarithms=logarithms,
        )
        ctx.save_for_backward(query, key, vector, value, bias, keep, exponentials, context, logarithms)
        return context[..., : value.shape[-1]]

    @staticmethod
    @unbatched
    @once_differentiable(
        "additive attention's native loop; attend(…, refocus=[lambda weights: weights]) takes a path that has them"
    )
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, value, bias, keep, exponentials, context, logarithms = ctx.saved_tensors
        (given,) = materialized("additive attention's native loop", given)
        batch, heads, key_heads = ctx.call["batch"], ctx.call["heads"], ctx.call["key_heads"]
        a, b, v, read, g = (additive.padded(one) for one in (query, key, vector, value, given))
        into_query, into_key, into_value = (torch.zeros_like(one) for one in (a, b, read))
        into_vector = v.new_zeros(batch * key_heads, len(v))
        into_bias = bias.new_zeros(bias.shape) if bias is not None and ctx.needs_input_grad[4] else None
        # A bias that serves several items gets gradients from all of them: by one thread.
        shared = into_bias is not None and (into_bias.shape[0] < batch or into_bias.shape[1] < heads)
        _loop_backward(
            **ctx.call,
            threads=1 if shared else None,
            a=a,
            b=b,
            kept=exponentials,
            v=v,
            value=read,
            keep=keep,
            bias=bias,
            out=context,
            logarithms=logarithms,
            g=g,
            da=into_query,
            db=into_key,
            dv=into_vector,
            dvalue=into_value,
            dbias=into_bias,
        )
        width = vector.shape[0]
        return (
            into_query[..., :width],
            into_key[..., :width],
            into_vector.sum(0)[:width].mul_(2),  # the gradients of a query's scores add up to 0
            into_value[..., : value.shape[-1]],
            into_bias,
            *(None,) * 5,
        )
