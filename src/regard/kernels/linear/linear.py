"""Attention whose scores are φ(q)·φ(k): sums over keys are kept instead of Tq × Tk (Katharopoulos 2020, section 3).

Memory and work grow with the length. The last column of every sum is the sum of the features themselves: with a column
of ones beside the values, numerator (equation 5) and denominator are one product. `read_all` and `read_past` take
features and are made of torch's own operations, for calls of any kind. `read` takes what a plain call gives, elu + 1
made on the way, and goes through it once in parts that stay in a cache, forwards and, made again, backwards: by a
native loop (`linear.cpp`), or by torch's own calls (`chunks.py`) where there is no compiler.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd.fresh_views import fresh_views
from regard.kernels.autograd.plain import is_plain_tensor, materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.linear import chunks
from regard.kernels.linear.chunks import CHUNK, Call, Made
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, THREADS, Input, Output

LIBRARY = Library("linear/linear", (torch.float32, torch.float64))
_QUERY, _KEY = ("batch", "heads", "group", "queries", "width"), ("batch", "heads", "keys", "width")
_VALUE, _CONTEXT = ("batch", "heads", "keys", "value_width"), ("batch", "heads", "group", "queries", "value_width")
_TOTAL, _MEMORY = ("batch", "heads", "group", "queries"), ("batch", "heads", "width", "value_width + 1")
_call = LIBRARY.structure(
    "LinearCall",
    **dict.fromkeys(("batch", "heads", "group", "queries", "keys", "width", "value_width"), INTEGER),
    **dict.fromkeys(("early", "lone", "elu"), INTEGER),
    threads=THREADS,
    query=Input(*_QUERY, strides=4),
    key=Input(*_KEY, strides=3),
    value=Input(*_VALUE, strides=3),
    keep=Input("batch", "keys", dtype=torch.bool, strides=1, optional=True),
    before=Input(*_MEMORY, optional=True),
)
_loop_forward = LIBRARY.predicate(
    "linear_forward", _call, context=Output(*_CONTEXT), total=Output(*_TOTAL), after=Output(*_MEMORY)
)
_loop_backward = LIBRARY.loop(
    "linear_backward",
    _call,
    context=Input(*_CONTEXT),
    total=Input(*_TOTAL),
    given=Input(*_CONTEXT),
    given_after=Input(*_MEMORY, optional=True),
    into_query=Output(*_QUERY),
    into_key=Output(*_KEY),
    into_value=Output(*_VALUE),
    into_before=Output(*_MEMORY, optional=True),
)

# --- torch's own operations -----------------------------------------------------------------------------------------


def read_all(
    query: Float[Tensor, "*lead queries features"],
    key: Float[Tensor, "*#lead keys features"],
    value: Float[Tensor, "*#lead keys value_dim"],
) -> Float[Tensor, "*lead queries value_dim"]:
    """Every query reads every key (equation 6); a query whose scores are all 0 reads 0."""
    return _divide(torch.matmul(query, summed(key, value)))


def summed(
    key: Float[Tensor, "*lead keys features"], value: Float[Tensor, "*lead keys value_dim"]
) -> Float[Tensor, "*lead features value_dim_and_one"]:
    """Σ φ(k) [v, 1]: all that a query needs of these keys."""
    return torch.matmul(key.transpose(-2, -1), _with_ones(value))


def read_past(
    query: Float[Tensor, "*lead positions features"],
    key: Float[Tensor, "*#lead positions features"],
    value: Float[Tensor, "*#lead positions value_dim"],
    memory: Float[Tensor, "*#lead features value_dim_and_one"] | None = None,
    chunk: int = CHUNK,
) -> tuple[Float[Tensor, "*lead positions value_dim"], Float[Tensor, "*lead2 features value_dim_and_one"]]:
    """Query i reads `memory` and keys 0 … i (equations 9–12 in chunks; one position is the recurrent form, 16–20).

    Within a chunk the scores are formed (chunk × chunk); what lies before it is read from the running sum.

    Args:
        query: features of the queries.
        key: features of the keys, at the same positions.
        value: value vectors.
        memory: the running sum of earlier keys, as a former call returned it.
        chunk: positions a block; changes speed, not meaning.

    Returns:
        The context, and the memory after the last position.
    """
    length = query.shape[-2]
    if memory is None:
        memory = summed(key[..., :0, :], value[..., :0, :])
    value = _with_ones(value)
    query, key, value = (_chunks(tensor, chunk) for tensor in (query, key, value))
    added = torch.matmul(key.transpose(-2, -1), value)  # (…, chunks, features, value_dim + 1)
    # Sums that start from the memory and end before each chunk, then one more: never a later sum minus a chunk, which
    # would let what comes later touch the last digits.
    sums = torch.cat((memory.unsqueeze(-3), added), dim=-3).cumsum(-3)
    scores = torch.matmul(query, key.transpose(-2, -1)).tril()
    read = torch.matmul(query, sums[..., :-1, :, :]) + torch.matmul(scores, value)
    return _divide(read.flatten(-3, -2)[..., :length, :]), sums[..., -1, :, :]


def _with_ones(value: Tensor) -> Tensor:
    return torch.cat((value, torch.ones_like(value[..., :1])), dim=-1)


def _divide(read: Tensor) -> Tensor:
    total = read[..., -1:]
    return torch.where(total != 0, read[..., :-1] / torch.where(total != 0, total, 1.0), 0.0)


def _chunks(tensor: Tensor, chunk: int) -> Tensor:
    """(…, positions, width) -> (…, chunks, chunk, width), the last one filled up with zeros."""
    lacking = -tensor.shape[-2] % chunk
    return torch.nn.functional.pad(tensor, (0, 0, 0, lacking)).unflatten(-2, (-1, chunk))


# --- plain calls ----------------------------------------------------------------------------------------------------


class Read(NamedTuple):
    """What `read` gives.

    Attributes:
        context: what the queries read; 0 where they are fully masked.
        memory: Σ φ(k) [v, 1] after the last key.
        finite: whether all that is real was; if not, the rest is not to be used.
    """

    context: Float[Tensor, "batch heads group queries value_dim"]
    memory: Float[Tensor, "batch heads features value_dim_and_one"]
    finite: bool


def serves(like: Tensor) -> bool:
    """Whether `read` takes a call: one on a CPU, neither traced, nor mapped, nor differentiated in forward mode."""
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    stored = is_plain_tensor(like) and not like.is_neg()
    return stored and like.device.type == "cpu" and torch.autograd.forward_ad._current_level < 0


def read(
    query: Float[Tensor, "batch heads group queries width"],
    key: Float[Tensor, "batch heads keys width"],
    value: Float[Tensor, "batch heads keys value_dim"],
    *,
    memory: Float[Tensor, "batch heads width value_dim_and_one"] | None = None,
    keep: Bool[Tensor, "batch keys"] | None = None,
    causal: bool,
    elu: bool,
) -> Read:
    """Linear attention of a plain call, in float32 or float64, all of one type, autocast switched off.

    Args:
        query: queries, those that share a head of the keys as a group.
        key: keys.
        value: value vectors.
        memory: the running sum of earlier keys.
        keep: True at real keys; the others count as if they were not there, whatever they hold.
        causal: the last query stands at the last key; each attends to the keys up to its own position.
        elu: φ is elu + 1 (equation 7); otherwise query and key are features already.
    """
    query, key, value = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (query, key, value))
    return Read(*_Read.apply(query, key, value, memory, keep, causal, elu))


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        memory: Tensor | None,
        keep: Tensor | None,
        causal: bool,
        elu: bool,
    ) -> tuple[Tensor, Tensor, bool]:
        call = Call(query, key, value, memory, keep, causal, elu)
        made = (_native_forward if LIBRARY.serves(query.dtype) else chunks.forward)(call)
        ctx.save_for_backward(query, key, value, memory, keep, made.context, made.total)
        ctx.causal, ctx.elu = causal, elu
        ctx.set_materialize_grads(False)
        return made.context, made.memory, made.finite

    @staticmethod
    @unbatched
    def backward(ctx: Any, given: Tensor | None, given_memory: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        query, key, value, memory, keep, context, total = ctx.saved_tensors
        given, given_memory = materialized("linear attention", given, given_memory)
        call = Call(query, key, value, memory, keep, ctx.causal, ctx.elu)
        if torch.is_grad_enabled():  # a derivative of this one is wanted
            query, key, value, memory = fresh_views(query, key, value, memory)
            call = call._replace(query=query, key=key, value=value, memory=memory)
            return *_by_formula(call, given, given_memory), None, None, None
        if given is None:
            given = torch.zeros_like(context)
        way = _native_backward if LIBRARY.serves(query.dtype) else chunks.backward
        with torch.autocast("cpu", enabled=False):  # one around the backward pass would narrow its products
            found = way(call, context, total, given.contiguous(), given_memory)
        return *found[:3], None if call.memory is None else found[3], None, None, None


def _by_formula(call: Call, given: Tensor | None, given_memory: Tensor | None) -> list[Tensor | None]:
    """The gradients of query, key, value and memory, which can be differentiated themselves."""
    made = formula(call)
    each = [(one, above) for one, above in zip(made, (given, given_memory), strict=True) if above is not None]
    inputs = (call.query, call.key, call.value, call.memory)
    wanted = [one for one in inputs if one is not None and one.requires_grad]
    found = iter(torch.autograd.grad([one for one, _ in each], wanted, [above for _, above in each], create_graph=True))
    return [next(found) if one is not None and one.requires_grad else None for one in inputs]


def formula(call: Call) -> tuple[Tensor, Tensor]:
    """Context and memory of a call from `read_all` and `read_past`, with torch's own derivatives."""
    query, key, value = call.query, call.key, call.value
    if call.elu:
        query, key = (torch.where(rows > 0, rows + 1, rows.clamp(max=0).exp()) for rows in (query, key))
    if call.keep is not None:
        key, value = (torch.where(call.keep[:, None, :, None], rows, 0.0) for rows in (key, value))
    key, value = key.unsqueeze(2), value.unsqueeze(2)
    early = summed(key[..., : call.early(), :], value[..., : call.early(), :])
    if call.memory is not None:
        early = early + call.memory.unsqueeze(2)
    lone = _divide(torch.matmul(query[..., : call.lone(), :], early))
    if not call.causal:
        return lone, early.squeeze(2)
    pairs = query[..., call.lone() :, :], key[..., call.early() :, :], value[..., call.early() :, :]
    context, memory = read_past(*pairs, early)
    return torch.cat((lone, context), -2), memory.squeeze(2)


# --- the native loop ----------------------------------------------------------------------------------------------


def _native_forward(call: Call) -> Made:
    lead, width, columns = call.query.shape[:-1], call.key.shape[-1], call.value.shape[-1] + 1
    context, total = call.query.new_empty(*lead, columns - 1), call.query.new_empty(*lead, 1)
    after = call.query.new_empty(*call.key.shape[:2], width, columns)
    finite = _loop_forward(**_given(call), context=context, total=total, after=after)
    return Made(context, total, after, finite)


def _native_backward(
    call: Call, context: Tensor, total: Tensor, given: Tensor, given_memory: Tensor | None
) -> tuple[Tensor, ...]:
    before = call.query.new_empty(*call.key.shape[:2], call.key.shape[-1], call.value.shape[-1] + 1)
    into_query, into_key, into_value = (one.new_empty(one.shape) for one in (call.query, call.key, call.value))
    _loop_backward(
        **_given(call),
        context=context,
        total=total,
        given=given,
        given_after=None if given_memory is None else given_memory.contiguous(),
        into_query=into_query,
        into_key=into_key,
        into_value=into_value,
        into_before=before,
    )
    return into_query, into_key, into_value, before


def _given(call: Call) -> dict[str, Any]:
    """What both loops are given first."""
    batch, heads, group, queries, width = call.query.shape
    return {
        "batch": batch,
        "heads": heads,
        "group": group,
        "queries": queries,
        "keys": call.key.shape[2],
        "width": width,
        "value_width": call.value.shape[3],
        "early": call.early(),
        "lone": call.lone(),
        "elu": call.elu,
        "query": call.query,
        "key": call.key,
        "value": call.value,
        "keep": None if call.keep is None else call.keep.contiguous(),
        "before": None if call.memory is None else call.memory.contiguous(),
    }
