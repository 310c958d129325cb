"""Additive scores `vᵀ tanh(a + b)` of all pairs, without a tanh for each of them and without their table.

tanh(a + b) = 2 σ(2 (a + b)) − 1 and σ(2 (a + b)) = 1 / (1 + e^(−2a) · e^(−2b)): the exponentials are made once for each
position, and a pair costs a product and a division. Pairs × hidden units is never held: pairs are gone through in
blocks, forwards and, made again, backwards. A native loop (`additive.cpp`) does so where there is a compiler; without
one, torch's own operations do (`blocks.py`).

Exponentials overflow, tanh does not. So they are taken where one side is narrow: |b| ≤ 17 (in float32) for all b. (The
native loop takes its middle over to the other side before, hidden unit by hidden unit.) The other side may then be cut
off at ±26.5, for beyond it the sum is past ±9.5, where tanh is ±1. No product reaches e^88 = 1.7e38. What has two wide
sides (NaN and inf are wide) goes through blocks of σ(2 (a + b)) itself.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.additive import blocks as additive_blocks, keys as additive_keys
from regard.kernels.autograd.fresh_views import fresh_views
from regard.kernels.autograd.plain import are_materialized, is_plain_tensor
from regard.kernels.autograd.tensor_cache import TensorCache
from regard.kernels.autograd.unbatch import untraced
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, THREADS, Input, Output

# Pairs × hidden units from which on a call is faster here, measured forwards and backwards.
_LEAST, _LEAST_COMPILED = 2**19, 2**16

MANY = 16
"""So many queries at once are worth making the keys' exponentials again, instead of keeping them."""

LIBRARY = Library("additive/additive", (torch.float32, torch.float64))
_SIDES: dict[str, Any] = {
    **dict.fromkeys(("items", "queries", "keys", "wide"), INTEGER),
    "threads": THREADS,
    "a": Input("items", "queries", "wide"),
    "b": Input("items", "keys", "wide"),
    "kept": Input("items", "keys", "wide", optional=True),  # exponentials of b
    "v": Input("wide"),
}
_loop_forward = LIBRARY.loop("additive_forward", **_SIDES, out=Output("items", "queries", "keys"))
_loop_backward = LIBRARY.loop(
    "additive_backward",
    **_SIDES,
    g=Input("items", "queries", "keys"),
    da=Output("items", "queries", "wide"),
    db=Output("items", "keys", "wide"),
    dv=Output("wide"),
    adds=INTEGER,  # whether da and db are added to
)
_loop_keep = LIBRARY.predicate("additive_keep", size=INTEGER, b=Input("size"), to=Output("size"))

# The exponentials of keys for the native loop, between the steps of a decoder; None where the keys are too wide.
_exponentials_of_keys: TensorCache[Tensor | None] = TensorCache()


def serves(query: Tensor, numbers: int) -> bool:
    """Whether this path takes a call: a plain one on a CPU, and large enough to be faster here than as a formula.

    Without a compiler a single query is left to the formula, whose table is then no larger than the keys.

    Args:
        query: of the call, projected or not. Without content (meta) it is judged as if it were on a CPU.
        numbers: pairs × hidden units.
    """
    if not (query.is_cpu or query.is_meta) or torch.compiler.is_compiling():
        return False
    if not is_plain_tensor(query) or query.is_neg():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0:
        return False
    if numbers < _LEAST_COMPILED:
        return False
    return LIBRARY.serves(torch.float32) or (numbers >= _LEAST and query.shape[-2] > 1)


def additive_scores(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    vector: Float[Tensor, " hidden"],
    formula: Callable[[Tensor, Tensor, Tensor], Tensor],
    prepared: bool = False,
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(a + b)` for each query a and key b (Bahdanau 2015, A.1.2), in float32 or float64.

    Args:
        query: a, projected.
        key: b, projected.
        vector: v.
        formula: the same as torch's own operations, for derivatives of derivatives.
        prepared: the keys were made ready for many calls: the native loop keeps their exponentials while this tensor
            lives, so that a decoder's next step finds them, and adds up their gradients of all steps in one table.

    The scores differ from the formula's by some units in the last place of `Σ|v|`, gradients likewise.
    """
    few_queries = prepared and query.shape[-2] < MANY
    if not torch.is_grad_enabled():  # an operation that keeps nothing takes longer
        return _forward(query, key, vector, few_queries)[0]
    shared = additive_keys.sentinel_of(key) if few_queries and LIBRARY.serves(key.dtype) else None
    scores: Tensor = _Scores.apply(query, key, vector, formula, few_queries, *(shared or (None, None)))
    return scores


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        vector: Tensor,
        formula: Any,
        keeps: bool,
        gathered: additive_keys.Gathered | None,
        sentinel: Tensor | None,
    ) -> Tensor:
        scores, exponentials = _forward(query, key, vector, keeps)
        ctx.save_for_backward(query, key, vector, exponentials)
        ctx.formula, ctx.gathered = formula, gathered
        ctx.native = LIBRARY.serves(query.dtype)
        return scores

    @staticmethod
    @untraced
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        # A backward pass within autocast would narrow what the forward pass has widened.
        with torch.autocast(given.device.type, enabled=False):
            found = _Scores.gradients(ctx, given)
        return *found, None, None, None, None if ctx.gathered is None else given.new_zeros(())

    @staticmethod
    def gradients(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, exponentials = ctx.saved_tensors
        given, create = given.resolve_neg(), torch.is_grad_enabled()
        if create or not are_materialized(given):  # somebody will differentiate or map this
            with torch.enable_grad():
                query, key, vector = fresh_views(query, key, vector)
                scores = ctx.formula(query, key, vector)
            wanted = [one for one in (query, key, vector) if one.requires_grad]
            found = iter(torch.autograd.grad(scores, wanted, given, create_graph=create))
            return tuple(next(found) if one.requires_grad else None for one in (query, key, vector))
        given = given.contiguous()
        if ctx.native:
            a, b, v = padded(query), padded(key), padded(vector)
            if ctx.gathered is not None and ctx.needs_input_grad[-1]:  # the sentinel hands the keys' gradient on
                table, adds = ctx.gathered.table(b)
            else:
                table, adds = torch.empty_like(b), False
            into = torch.zeros_like(a) if adds else torch.empty_like(a), table, torch.zeros_like(v)
            _loop_backward(
                items=a.shape[:-2].numel(),
                queries=a.shape[-2],
                keys=b.shape[-2],
                wide=b.shape[-1],
                a=a,
                b=b,
                kept=exponentials,
                v=v,
                g=given,
                da=into[0],
                db=into[1],
                dv=into[2],
                adds=adds,
            )
            into_query, into_key, into_vector = (one[..., : len(vector)] for one in into)
            into_vector.mul_(2).sub_(given.sum())
            return into_query, None if ctx.gathered is not None else into_key, into_vector
        into_query, into_key, into_vector = additive_blocks.gradients(_flat(query), _flat(key), vector, _flat(given))
        return into_query.view(query.shape), into_key.view(key.shape), into_vector


def _forward(query: Tensor, key: Tensor, vector: Tensor, keeps: bool) -> tuple[Tensor, Tensor | None]:
    """The scores, and the prepared keys that are kept."""
    if not LIBRARY.serves(query.dtype):
        scores = additive_blocks.scores(_flat(query), _flat(key), vector)
        return scores.view(*query.shape[:-1], key.shape[-2]), None
    exponentials = key_exponentials(key) if keeps else None
    scores = query.new_empty(*query.shape[:-1], key.shape[-2])
    a, b, v = padded(query), padded(key), padded(vector)
    _loop_forward(
        items=a.shape[:-2].numel(),
        queries=a.shape[-2],
        keys=b.shape[-2],
        wide=b.shape[-1],
        a=a,
        b=b,
        kept=exponentials,
        v=v,
        out=scores,
    )
    return scores, exponentials


def _flat(rows: Tensor) -> Tensor:
    """With one axis of items in place of all that lead."""
    return rows.reshape(-1, *rows.shape[-2:])


def key_exponentials(key: Tensor) -> Tensor | None:
    """The exponentials of narrow keys for the native loop, made once while they live; None of wide ones."""
    return _exponentials_of_keys.get(key, lambda key: _to_keep(key.detach()))


@torch.inference_mode(False)  # a later call may have gradients
def _to_keep(key: Tensor) -> Tensor | None:
    if not LIBRARY.serves(key.dtype):  # what asks is a loop of another library, which then makes them itself
        return None
    key = padded(key)
    made = torch.empty_like(key)
    return made if _loop_keep(size=key.numel(), b=key, to=made) else None


def padded(rows: Tensor) -> Tensor:
    """Rows of whole vectors, as wide as any processor's: 0 behind their end."""
    more = _behind(rows)
    return F.pad(rows, (0, more)) if more else rows.resolve_neg().contiguous()


def _behind(rows: Tensor) -> int:
    return -rows.shape[-1] % (64 // rows.element_size())
