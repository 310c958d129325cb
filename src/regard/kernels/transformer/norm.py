"""A sum and its layer normalization in one function with its gradients, for training on a CPU.

Layer normalization: Ba, Kiros & Hinton 2016, equations 3 and 4.

torch's own calls go through the rows once for the sum, twice for its norm, three times for its gradients, and once more
where gradients come back to the sum on two ways, as in a Transformer's block. The loop is `norm.cpp`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels.autograd.fresh_views import fresh_views
from regard.kernels.autograd.hooks import is_hooked
from regard.kernels.autograd.plain import are_materialized, is_plain, is_plain_tensor
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Input, Output

_LEAST = 2**13  # numbers from which on it is faster
_ROWS = 64  # `norm.cpp`'s kRows

LIBRARY = Library("transformer/norm", (torch.float32,))
_loop_forward = LIBRARY.loop(
    "norm_forward",
    rows=INTEGER,
    size=INTEGER,
    threads=THREADS,
    epsilon=REAL,
    x=Input("rows", "size"),
    more=Input("rows", "size", optional=True),
    weight=Input("size"),
    bias=Input("size", optional=True),
    sums=Output("rows", "size", optional=True),
    y=Output("rows", "size"),
    means=Output("rows"),
    scales=Output("rows"),
)
_loop_backward = LIBRARY.loop(
    "norm_backward",
    rows=INTEGER,
    size=INTEGER,
    blocks=INTEGER,
    threads=THREADS,
    above=Input("rows", "size"),
    past=Input("rows", "size", optional=True),
    s=Input("rows", "size"),
    means=Input("rows"),
    scales=Input("rows"),
    weight=Input("size"),
    parts=Output("blocks", "2", "size"),
    to_s=Output("rows", "size"),
    to_weight=Output("size"),
    to_bias=Output("size", optional=True),
)


def sum_and_norm(
    norm: nn.Module, x: Float[Tensor, "*lead dim"], more: Float[Tensor, "*lead dim"] | None = None
) -> tuple[Float[Tensor, "*lead dim"], Float[Tensor, "*lead dim"]]:
    """`s = x + more`, and `norm(s)`; by the loop where that serves.

    There it is `(s − mean) / √(variance + ε) · weight + bias` (Ba et al. 2016), to float32's rounding. What comes back
    to both is added where it is made: without `more`, read the sum instead of x from here on. Derivatives of
    derivatives are those of torch's own operations.

    Args:
        norm: any module.
        x: of any strides.
        more: added to it; None for nothing.
    """
    if _serves(norm, x, more):
        summed, normed = _Norm.apply(x, more, norm.weight, norm.bias, norm.eps)
        return summed, normed
    summed = x if more is None else x + more
    return summed, norm(summed)


def _serves(norm: nn.Module, x: Tensor, more: Tensor | None) -> bool:
    """Whether the loop takes it: a plain call with gradients, in float32 on a CPU with a compiler."""
    if type(norm) is not nn.LayerNorm or x.device.type != "cpu" or not torch.is_grad_enabled() or not is_plain(x):
        return False
    weight = norm.weight
    if x.numel() < _LEAST or weight is None or weight.ndim != 1 or x.shape[-1:] != weight.shape:
        return False
    if (more is not None and more.shape != x.shape) or (norm.bias is not None and norm.bias.shape != weight.shape):
        return False
    given = [one for one in (x, more, weight, norm.bias) if one is not None]
    if any(
        one.dtype is not torch.float32 or not one.is_cpu or one.is_neg() or not is_plain_tensor(one) for one in given
    ):
        return False
    return any(one.requires_grad for one in given) and not is_hooked(norm) and LIBRARY.serves(torch.float32)


def _formula(
    x: Tensor, more: Tensor | None, weight: Tensor, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    summed = x.view_as(x) if more is None else x + more
    return summed, F.layer_norm(summed, weight.shape, weight, bias, epsilon)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, more: Tensor | None, weight: Tensor, bias: Tensor | None, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        given = x, more, weight, bias
        x, weight = x.contiguous(), weight.contiguous()
        more, bias = (one if one is None else one.contiguous() for one in (more, bias))
        summed = None if more is None else torch.empty_like(x)
        normed, (means, scales) = torch.empty_like(x), x.new_empty(2, x.shape[:-1].numel()).unbind()
        _loop_forward(
            rows=len(means),
            size=x.shape[-1],
            epsilon=epsilon,
            x=x,
            more=more,
            weight=weight,
            bias=bias,
            sums=summed,
            y=normed,
            means=means,
            scales=scales,
        )
        ctx.save_for_backward(*given, summed, means, scales)
        ctx.epsilon = epsilon
        ctx.set_materialize_grads(False)
        return given[0].view_as(given[0]) if summed is None else summed, normed

    @staticmethod
    @unbatched
    def backward(ctx: Any, grad_summed: Tensor | None, grad_normed: Tensor | None) -> tuple[Tensor | None, ...]:
        *given, summed, means, scales = ctx.saved_tensors
        if grad_normed is None:
            return grad_summed, None if given[1] is None else grad_summed, None, None, None
        if torch.is_grad_enabled() or not are_materialized(
            grad_summed, grad_normed
        ):  # somebody will differentiate or map this
            return *_by_formula(given, ctx.epsilon, ctx.needs_input_grad, grad_summed, grad_normed), None
        s = (given[0] if summed is None else summed).contiguous()
        weight, size = given[2].contiguous(), s.shape[-1]
        grad_normed, grad_summed = (
            grad_normed.contiguous(),
            grad_summed if grad_summed is None else grad_summed.contiguous(),
        )
        parts = s.new_empty((len(means) + _ROWS - 1) // _ROWS, 2, size)
        to_s, to_weight = torch.empty_like(s), torch.empty_like(weight)
        to_bias = None if given[3] is None else torch.empty_like(weight)
        _loop_backward(
            rows=len(means),
            size=size,
            blocks=len(parts),
            above=grad_normed,
            past=grad_summed,
            s=s,
            means=means,
            scales=scales,
            weight=weight,
            parts=parts,
            to_s=to_s,
            to_weight=to_weight,
            to_bias=to_bias,
        )
        return to_s, None if given[1] is None else to_s, to_weight, to_bias, None


def _by_formula(
    given: list[Tensor | None],
    epsilon: float,
    wanted: tuple[bool, ...],
    grad_summed: Tensor | None,
    grad_normed: Tensor,
) -> tuple[Tensor | None, ...]:
    create = torch.is_grad_enabled()
    with torch.enable_grad():
        if create:
            given = fresh_views(*given)
        else:
            given = [one if one is None else one.detach().requires_grad_(one.requires_grad) for one in given]
        summed, normed = _formula(*given, epsilon)  # type: ignore[arg-type, call-arg]
        needing = [one for one, needed in zip(given, wanted, strict=False) if needed and one is not None]
        both = (
            (summed, grad_summed),
            (normed, grad_normed),
        )  # a sum of what needs no gradient has none, whatever comes back to it
        known = [(one, upstream) for one, upstream in both if upstream is not None and one.requires_grad]
        outputs, upstreams = zip(*known, strict=True)
        found = iter(torch.autograd.grad(outputs, needing, upstreams, create_graph=create))
    return tuple(next(found) if needed else None for needed in wanted[:4])
