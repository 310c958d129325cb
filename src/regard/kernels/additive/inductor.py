"""Additive scores on a GPU: torch's compiler writes the kernels, which make each pair as they go and keep none.

`vᵀ tanh(a + b)` and each of its gradients is one sum over pairs × hidden units. Compiled by itself, such a sum is one
kernel that holds no table of what it sums; the backward pass makes tanh again rather than remember it. The kernels are
Triton's on a GPU and C++ on a processor, where `additive.py` is faster and this serves as a test of the same text.
"""

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.fresh_views import fresh_views
from regard.kernels.autograd.plain import is_plain
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native import compiler

_LEAST = 2**22
"""Pairs × hidden units below which the table is small and making a kernel is not worth it."""


def serves(like: Tensor, numbers: int) -> bool:
    """Whether a call goes through compiled kernels: a plain and large one on a GPU, where torch's compiler works.

    Args:
        like: one of what the call is given.
        numbers: pairs × hidden units.
    """
    return like.device.type == "cuda" and numbers >= _LEAST and is_plain(like) and how() is None


@functools.cache
def how() -> str | None:
    """Why no kernels for a GPU can be written here; None where they can."""
    from torch.utils._triton import has_triton

    if os.environ.get(compiler.SWITCH) == "0":
        return f"{compiler.SWITCH}=0"
    return None if has_triton() else "Triton, which writes kernels for this GPU, is not installed"


def additive_scores(
    query: Float[Tensor, "*lead queries hidden"],
    key: Float[Tensor, "*lead keys hidden"],
    vector: Float[Tensor, " hidden"],
    formula: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Float[Tensor, "*lead queries keys"]:
    """`vᵀ tanh(a + b)` for each query a and key b (Bahdanau 2015, A.1.2), on the device of the inputs.

    Args:
        query: a, projected, in float32 or float64.
        key: b, projected.
        vector: v.
        formula: the same as torch's own operations: for derivatives of derivatives, and where no kernel can be made.
    """
    try:
        scores: Tensor = _Scores.apply(query, key, vector, formula)
        return scores
    except torch._dynamo.exc.TorchDynamoException as error:
        warnings.warn(
            f"additive attention takes the slower path: no kernel could be made for {query.device}: "
            f"{str(error)[:500]}. Set {compiler.SWITCH}=0 to try no more",
            RuntimeWarning,
            stacklevel=2,
        )
        return formula(query, key, vector)


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, vector: Tensor, formula: Any) -> Tensor:
        ctx.save_for_backward(query, key, vector)
        ctx.formula = formula
        made: Tensor = _kernel(_score)(query, key, vector)
        return made

    @staticmethod
    @unbatched
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector = ctx.saved_tensors
        if torch.is_grad_enabled():  # a derivative of this one is wanted
            query, key, vector = fresh_views(query, key, vector)
            scores = ctx.formula(query, key, vector)
            wanted = [one for one in (query, key, vector) if one.requires_grad]
            found = iter(torch.autograd.grad(scores, wanted, given, create_graph=True))
            return *(next(found) if one.requires_grad else None for one in (query, key, vector)), None
        gradients = zip((_to_query, _to_key, _to_vector), ctx.needs_input_grad, strict=False)
        return *(
            _kernel(gradient)(query, key, vector, given) if needed else None for gradient, needed in gradients
        ), None


# --- the sums, each a kernel ----------------------------------------------------------------------------------------


@functools.cache
def _kernel(text: Callable[..., Tensor]) -> Callable[..., Tensor]:
    kernel: Callable[..., Tensor] = torch.compile(text, dynamic=True, fullgraph=True)
    return kernel


def _tanh(query: Tensor, key: Tensor) -> Tensor:
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))


def _score(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    return (_tanh(query, key) * vector).sum(-1)


def _steep(query: Tensor, key: Tensor, vector: Tensor, given: Tensor) -> Tensor:
    """Of each pair and hidden unit `g v (1 − tanh²)`."""
    made = _tanh(query, key)
    return (1 - made * made) * vector * given.unsqueeze(-1)


def _to_query(query: Tensor, key: Tensor, vector: Tensor, given: Tensor) -> Tensor:
    return _steep(query, key, vector, given).sum(-2)


def _to_key(query: Tensor, key: Tensor, vector: Tensor, given: Tensor) -> Tensor:
    return _steep(query, key, vector, given).sum(-3)


def _to_vector(query: Tensor, key: Tensor, vector: Tensor, given: Tensor) -> Tensor:
    return (_tanh(query, key) * given.unsqueeze(-1)).flatten(0, -2).sum(0)
