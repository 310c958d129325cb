"""Smoothed cross-entropy with its gradient and its right choices in one native loop, for logits that fill memory.

torch's calls go through all logits some ten times; the loop (`cross_entropy.cpp`) reads them once and writes gradients.
Where it is given what makes the logits, no one else holds them: it adds the bias, and their gradient takes their place.
Label smoothing: Szegedy et al. 2016, section 7.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.kernels.autograd.once_differentiable import graph_anchor, once_differentiable
from regard.kernels.autograd.plain import are_materialized, is_plain
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, Input, Output
from regard.kernels.native.huge_pages import in_large_pages

_LEAST = 2**12  # logits from which on it is faster

LIBRARY = Library("loss/cross_entropy", (torch.float32,))
_loop = LIBRARY.loop(
    "cross_entropy",
    **dict.fromkeys(("rows", "size", "blocks"), INTEGER),
    threads=THREADS,
    ignored=INTEGER,
    smoothing=REAL,
    logits=Output("rows", "size"),
    targets=Input("rows", dtype=torch.int64),
    bias=Input("size", optional=True),
    gradient=Output("rows", "size", optional=True),
    slopes=Output("blocks", "size", optional=True),
    losses=Output("rows"),
    right=Output("rows", dtype=torch.bool),
)


def serves(logits: Tensor, targets: Tensor) -> bool:
    """Whether the loop takes these logits: float32 on a CPU, a plain call, where it could be built."""
    if logits.numel() < _LEAST or type(targets) is not Tensor or targets.device.type != "cpu":
        return False
    return _is_plain_matrix(logits) and LIBRARY.serves(torch.float32)


def serves_vocabulary(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> bool:
    """Whether `of_vocabulary` takes a call; the same, for what the logits would be made of."""
    if len(features) * len(weight) < _LEAST or type(targets) is not Tensor or targets.device.type != "cpu":
        return False
    if not _is_plain_matrix(features) or not _is_plain_matrix(weight) or not _is_plain_matrix(bias[None]):
        return False
    if bias.shape != weight.shape[:1] or features.shape[1] != weight.shape[1]:  # torch's own layer refuses in words
        return False
    return LIBRARY.serves(torch.float32)


def _is_plain_matrix(x: Tensor) -> bool:
    plain = x.device.type == "cpu" and x.dtype is torch.float32 and type(x) in (Tensor, nn.Parameter)
    return plain and x.ndim == 2 and is_plain(x)


def cross_entropy(
    logits: Float[Tensor, "tokens choices"], targets: Int[Tensor, " tokens"], smoothing: float, ignored: int
) -> tuple[Float[Tensor, ""], Bool[Tensor, " tokens"]]:
    """The summed loss, see `layers.objective`, and for which rows the target was the first of the largest logits.

    Can be differentiated once, and refuses to be twice. A sum of a row's exponentials is taken in float32, by as many
    parts as a vector has.

    Raises:
        IndexError: a target is none of the choices.
        ShapeError: there is not one target a row.
    """
    _check(targets, logits.shape[0], logits.shape[1], ignored)
    total, right = _CrossEntropy.apply(logits, graph_anchor(logits), targets, smoothing, ignored)
    return total, right


def of_vocabulary(
    features: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "choices width"],
    bias: Float[Tensor, " choices"],
    targets: Int[Tensor, " tokens"],
    smoothing: float,
    ignored: int,
) -> tuple[Float[Tensor, ""], Bool[Tensor, " tokens"]]:
    """The same of the logits `features weightᵀ + bias`, which become their own gradient where they lie.

    Raises:
        IndexError: a target is none of the choices.
        ShapeError: there is not one target a row.
    """
    _check(targets, len(features), len(weight), ignored)
    none = graph_anchor(bias)
    total, right = _OfVocabulary.apply(none, features, weight, bias, targets, smoothing, ignored)
    return total, right


def _check(targets: Tensor, rows: int, choices: int, ignored: int) -> None:
    if targets.shape != (rows,):
        raise ShapeError(f"logits have shape {(rows, choices)}, targets {tuple(targets.shape)}: one a row is needed")
    outside = (targets != ignored) & ((targets < 0) | (targets >= choices))
    if bool(outside.any()):
        raise IndexError(f"a target is {int(targets[outside][0])}, and the choices are 0 to {choices - 1}")


def _run(
    logits: Tensor,
    targets: Tensor,
    smoothing: float,
    ignored: int,
    gradient: Tensor | None,
    bias: Tensor | None = None,
    slopes: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Each row's loss, and whether its target was the first choice; see the loop."""
    losses, right = logits.new_empty(len(logits)), logits.new_empty(len(logits), dtype=torch.bool)
    _loop(
        rows=len(logits),
        size=logits.shape[1],
        blocks=0 if slopes is None else len(slopes),
        ignored=ignored,
        smoothing=smoothing,
        logits=logits,
        targets=targets.contiguous().long(),
        bias=bias,
        gradient=gradient,
        slopes=slopes,
        losses=losses,
        right=right,
    )
    return losses, right


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, none: Tensor, targets: Tensor, smoothing: float, ignored: int
    ) -> tuple[Tensor, Tensor]:
        logits = logits.contiguous()
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        losses, right = _run(logits, targets, smoothing, ignored, gradient)
        ctx.save_for_backward(gradient, none)
        ctx.mark_non_differentiable(right)
        return losses.sum(), right

    @staticmethod
    @unbatched
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor, None, None, None, None]:
        gradient, none = ctx.saved_tensors
        return times_upstream(gradient, none, upstream), None, None, None, None


class _OfVocabulary(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        none: Tensor,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        ignored: int,
    ) -> tuple[Tensor, Tensor]:
        rows, choices = len(features), len(weight)
        logits, slopes = in_large_pages(features.new_empty(rows, choices)), None
        torch.mm(features, weight.t(), out=logits)
        needs_gradient = any(ctx.needs_input_grad)
        if ctx.needs_input_grad[3]:
            slopes = logits.new_empty(-(-rows // LIBRARY.number("cross_entropy_block")), choices)
        gradient = logits if needs_gradient else None
        losses, right = _run(logits, targets, smoothing, ignored, gradient, bias.contiguous(), slopes)
        ctx.save_for_backward(gradient, None if slopes is None else slopes.sum(0), features, weight, none)
        ctx.mark_non_differentiable(right)
        return losses.sum(), right

    @staticmethod
    @unbatched
    @once_differentiable("the loss of a vocabulary; torch.nn.functional.cross_entropy has them")
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradient, to_bias, features, weight, _ = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):  # around a backward pass it would narrow the products
            of_rows, of_choices = (
                _product(left, right) if wanted else None
                for left, right, wanted in zip(
                    (gradient, gradient.t()), (weight, features), ctx.needs_input_grad[1:3], strict=True
                )
            )
        return (
            None,
            *(None if one is None else _scaled(one, upstream) for one in (of_rows, of_choices, to_bias)),
            None,
            None,
            None,
        )


def _product(left: Tensor, right: Tensor) -> Tensor:
    out = in_large_pages(left.new_empty(len(left), right.shape[1]))
    return torch.mm(left, right, out=out)


def _scaled(gradient: Tensor, upstream: Tensor) -> Tensor:
    """A gradient of the loss, times what comes back to the loss."""
    # Many gradients at once may each be another number; else it is mostly the loss itself that is differentiated.
    return gradient if are_materialized(upstream) and upstream == 1 else gradient * upstream.to(gradient.dtype)


def times_upstream(
    gradient: Float[Tensor, "tokens choices"], none: Float[Tensor, " 0"], upstream: Float[Tensor, ""]
) -> Float[Tensor, "tokens choices"]:
    """What comes back to the logits, from a gradient that was made with the loss.

    Its own derivative would need the logits, which are not kept: so it refuses to be differentiated.

    Args:
        gradient: of the loss.
        none: what `graph_anchor` gives of the logits.
        upstream: what comes back to the loss.
    """
    if torch.is_grad_enabled():
        made: Tensor = _Slope.apply(gradient, none, upstream)
        return made
    return _scaled(gradient, upstream)


class _Slope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, none: Tensor, upstream: Tensor) -> Tensor:
        return gradient * upstream.to(gradient.dtype)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[None, None, None]:
        raise RuntimeError(
            "the loss has no second derivatives, since it keeps no logits; torch.nn.functional.cross_entropy has them"
        )
