"""Softmax over a window around each query's center, in one pass; and the centers that local-p predicts.

Local attention: Luong, Pham & Manning 2015, section 3.2, equations 9 and 10.

A native loop (`softmax.hpp`) scores a window's rows, weighs and reads them while they are in a cache, and the
same in the backward pass; without a compiler torch's own calls do it, with the products of `local.py`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.kernels.autograd.fresh_views import fresh_views
from regard.kernels.autograd.hooks import is_hooked
from regard.kernels.autograd.plain import materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.local import local, loops
from regard.kernels.memory.arrays import Array

_FEW = 2**14  # so many weights are made sooner by numpy's calls, which know one thread


class Window(NamedTuple):
    """What the windows of a call have in common.

    Attributes:
        radius: the rows no further from a query's center are in its window, but for those beyond the item's length.
        size: so many rows hold any window; not more than there are.
        sigma: the standard deviation of the Gaussian at the center, by which weights are multiplied; 0 for none.
        scale: of the products.
    """

    radius: float
    size: int
    sigma: float
    scale: float


class WindowAttention(NamedTuple):
    """What `window_attention` gives.

    Attributes:
        context: `(batch, queries, value_width)`.
        scores: of the window's rows, −inf outside the item, `(batch, queries, window)`.
        first: where windows begin, `(batch, queries)`.
    """

    context: Tensor
    scores: Tensor
    first: Tensor


def serves(left: Tensor, key: Tensor, value: Tensor, center: Tensor) -> bool:
    """Whether `window_attention` takes these tensors of a plain call on a CPU.

    All are float32 or all are float64; centers may be integers.
    """
    kind = left.dtype
    alike = kind in loops.LIBRARY.kinds and key.dtype is kind and value.dtype is kind
    return alike and (center.dtype is kind or not center.is_floating_point())


def window_attention(
    left: Float[Tensor, "batch queries width"],
    key: Float[Tensor, "batch keys width"],
    value: Float[Tensor, "batch keys value_width"],
    center: Float[Tensor, "batch queries"] | Int[Tensor, "batch queries"],
    lengths: Int[Tensor, " batch"],
    window: Window,
) -> WindowAttention | None:
    """`softmax(scale · left · key) · exp(−(s − center)² / 2σ²)` over each query's window, and the values it reads.

    Nothing checks that the shapes fit. It can be differentiated again and again, the scores too.

    Args:
        left: query vectors.
        key: key vectors.
        value: value vectors.
        center: of the windows, in positions from 0.
        lengths: the rows of each item that may be attended to; from 0 to all.
        window: what the windows have in common.

    Returns:
        None where a query, or a row in its window, is not finite. A fully masked query gets a zero context.
    """
    wanted = torch.is_grad_enabled() and any(one.requires_grad for one in (left, key, value, center))
    if not local.is_native(left, key):
        few = not wanted and center.numel() * window.size <= _FEW
        attended, finite = (_by_numpy if few else _by_torch)(left, key, value, center, lengths, window)
        return attended if finite else None
    made = _Call(left, key, value, center, lengths, window).forward(window)
    if made is None:
        return None
    if wanted:
        context, scores = _WindowAttention.apply(left, key, value, center, lengths, window, made)
        return WindowAttention(context, scores, made[0].first)
    return made[0]


def is_plain_projection(layer: nn.Module) -> bool:
    """Whether a layer is its matrix and no more, without hooks."""
    return type(layer) is nn.Linear and layer.bias is None and not is_hooked(layer)


def predicts(hidden: Tensor, layer: nn.Module) -> bool:
    """Whether `predict` takes these numbers of a plain call, and this layer's weight as its vector."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or not local.is_native(hidden, weight) or not is_plain_projection(layer):
        return False
    return hidden.ndim == 3 and hidden.device.type == "cpu" and weight.device == hidden.device


def predict(
    hidden: Float[Tensor, "batch queries hidden"], vector: Float[Tensor, "1 hidden"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch queries"] | None:
    """`S · sigmoid(vᵀ tanh(hidden))`: the predicted center of each query (Luong 2015, equation 9).

    Of what `predicts` lets pass. It can be differentiated again and again.

    Args:
        hidden: W h.
        vector: v.
        lengths: S.

    Returns:
        None where something of `hidden` is not finite.
    """
    rows, lengths = hidden.contiguous(), lengths.long().contiguous()
    center = hidden.new_empty(hidden.shape[:-1])
    if not loops.predict(**_predicted(rows, vector, lengths), center=center):
        return None
    if torch.is_grad_enabled() and (hidden.requires_grad or vector.requires_grad):
        given: Tensor = _Predict.apply(rows, vector, lengths, center)
        return given
    return center


# --- torch's own calls ----------------------------------------------------------------------------------------------


def _by_torch(
    left: Tensor,
    key: Tensor,
    value: Tensor,
    center: Tensor,
    lengths: Tensor,
    window: Window,
    first: Tensor | None = None,
) -> tuple[WindowAttention, bool]:
    """What `window_attention` gives, and whether all in the windows and the queries is finite.

    Windows begin where `first` says, if it is given; else they may be all rows, where that is faster.
    """
    # Whole positions stand for float32, in which their edges are computed.
    number = torch.finfo(left.dtype if center.is_floating_point() else torch.float32)
    center = center.to(left.dtype)
    size, keys = window.size, key.shape[1]
    place = center.detach()
    reach = place.abs().clamp_(1.0, number.max).mul_(8 * number.eps).add_(window.radius)
    if first is None and local.is_dense(place.shape[1], keys, size):
        size, first = keys, torch.zeros_like(place, dtype=torch.long)
    elif first is None:
        first = (place - reach).floor_().nan_to_num_(0.0).clamp_(0, keys - size).long()
    at = torch.arange(size, dtype=center.dtype, device="cpu")
    if size < keys:  # else all windows are all rows
        at = at + first.unsqueeze(-1)
    distance = at - center.unsqueeze(-1)
    visible = (distance.detach().abs() <= reach.unsqueeze(-1)).logical_and_(at < lengths[:, None, None])
    products = local.dots(left if window.scale == 1 else left * window.scale, key, first, size)
    scores = torch.where(visible, products, -torch.inf)
    weights = torch.softmax(scores, -1)
    if math.isnan(weights.detach().select(-1, 0).sum().item()):  # a fully masked row is 0 / 0
        fully_masked = ~visible.any(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(fully_masked, 0.0), -1).masked_fill(fully_masked, 0.0)
    if window.sigma > 0:
        weights = weights * distance.square().mul_(-1 / (2 * window.sigma**2)).exp_()
    # Processors take a hundred times longer for numbers below the normal ones (2^-126 in float32): they count as 0.
    weights = F.threshold(weights, torch.finfo(weights.dtype).tiny, 0.0)
    context = local.mix(weights, value, first)
    finite = math.isfinite(products.detach().sum().item() + context.detach().sum().item())
    return WindowAttention(context, scores, first), finite


def _by_numpy(
    left: Tensor, key: Tensor, value: Tensor, center: Tensor, lengths: Tensor, window: Window
) -> tuple[WindowAttention, bool]:
    """What `_by_torch` gives, without gradients: numpy's small calls take a fraction of torch's."""
    number = torch.finfo(left.dtype if center.is_floating_point() else torch.float32)
    place: Array = center.detach().to(left.dtype).resolve_neg().numpy()
    size, keys = window.size, key.shape[1]
    with np.errstate(all="ignore"):
        reach = np.minimum(np.maximum(np.abs(place), 1.0), number.max) * (8 * number.eps) + window.radius
        if local.is_dense(place.shape[1], keys, size):
            size, begin = keys, np.zeros_like(place)
        else:
            begin = np.minimum(np.fmax(np.floor(place - reach), 0.0), keys - size)
        at = begin[..., None] + np.arange(size, dtype=place.dtype)
        distance = at - place[..., None]
        visible = np.abs(distance) <= reach[..., None]
        visible &= at < lengths.numpy()[:, None, None]
        first = torch.from_numpy(begin.astype(np.int64))
        left, bags = left if window.scale == 1 else left * window.scale, local.Bags.narrow(key, first, size)
        products = local.dots(left, key, first, size) if bags is None else bags.dots(left.contiguous())
        scores: Array = products.numpy()
        finite = float(np.add.reduce(scores, None))
        np.copyto(scores, -np.inf, where=~visible)
        weights = np.exp(scores - np.maximum(np.maximum.reduce(scores, -1, keepdims=True), np.finfo(scores.dtype).min))
        weights /= np.maximum(np.add.reduce(weights, -1, keepdims=True), 1.0)  # 0 of a fully masked row
        if window.sigma > 0:
            distance *= distance
            distance *= -1 / (2 * window.sigma**2)
            weights *= np.exp(distance, out=distance)
        np.copyto(weights, 0.0, where=weights < np.finfo(weights.dtype).tiny)
        given, bags = torch.from_numpy(weights), None if bags is None else bags.of_others(value)
        context = local.mix(given, value, first) if bags is None else bags.mix(given)
        finite += float(np.add.reduce(context.numpy(), None))
    return WindowAttention(context, products, first), math.isfinite(finite)


def _predict_by_torch(hidden: Tensor, vector: Tensor, lengths: Tensor) -> Tensor:
    return lengths.unsqueeze(-1) * torch.sigmoid(torch.nn.functional.linear(torch.tanh(hidden), vector).squeeze(-1))


# --- the native loop ----------------------------------------------------------------------------------------------


class _Call:
    """The tensors of a call as the loop takes them."""

    def __init__(
        self, left: Tensor, key: Tensor, value: Tensor, center: Tensor, lengths: Tensor, window: Window
    ) -> None:
        # Whole positions stand for float32, in which their edges are computed.
        exact = torch.finfo(left.dtype if center.is_floating_point() else torch.float32).eps
        left, key, value = left.resolve_neg().contiguous(), local.in_rows(key), local.in_rows(value)
        self.three = left, key, value
        self.center = center.to(left.dtype).resolve_neg().contiguous()
        self.lengths = lengths.long().contiguous()
        batch, queries, width = left.shape
        self.given = {
            "batch": batch,
            "queries": queries,
            "rows": key.shape[1],
            "window": window.size,
            "width": width,
            "value_width": value.shape[-1],
            "radius": window.radius,
            "epsilon": exact,
            "sigma": window.sigma,
            "scale": window.scale,
            "center": self.center,
            "lengths": self.lengths,
            "left": left,
            "key": key,
            "value": value,
        }

    def forward(self, window: Window) -> tuple[WindowAttention, Tensor] | None:
        """What `window_attention` gives, and the order of the queries; None where an attended key is not finite."""
        left, _, value = self.three
        context, scores = left.new_empty(*left.shape[:2], value.shape[-1]), left.new_empty(*left.shape[:2], window.size)
        first, order = torch.empty(2, *left.shape[:2], dtype=torch.int64, device="cpu").unbind()
        finite = loops.attend(**self.given, context=context, scores=scores, first=first, order=order)
        return (WindowAttention(context, scores, first), order) if finite else None

    def backward(
        self,
        made: tuple[Tensor, Tensor, Tensor],
        grad_output: Tensor | None,
        grad_scores: Tensor | None,
        wanted: tuple[bool, ...],
    ) -> list[Tensor | None]:
        """The gradients of left, key, value and center, from what `forward` made: scores, first and order."""
        grad_output, grad_scores = (None if one is None else one.contiguous() for one in (grad_output, grad_scores))
        found = [
            one.new_empty(one.shape) if needing else None
            for one, needing in zip((*self.three, self.center), wanted, strict=True)
        ]
        scores, first, order = made
        loops.attend_backward(
            **self.given,
            scores=scores,
            first=first,
            order=order,
            above=grad_output,
            above_scores=grad_scores,
            to_left=found[0],
            to_key=found[1],
            to_value=found[2],
            to_center=found[3],
        )
        return found


class _WindowAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        key: Tensor,
        value: Tensor,
        center: Tensor,
        lengths: Tensor,
        window: Window,
        made: tuple[WindowAttention, Tensor],
    ) -> tuple[Tensor, Tensor]:
        (context, scores, first), order = made
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(left, key, value, center, lengths, scores, first, order)
        ctx.window = window
        return context, scores

    @staticmethod
    @unbatched
    def backward(ctx: Any, grad_output: Tensor | None, grad_scores: Tensor | None) -> tuple[Tensor | None, ...]:
        left, key, value, center, lengths, scores, first, order = ctx.saved_tensors
        wanted, nothing = ctx.needs_input_grad[:4], (None,) * 3
        grad_output, grad_scores = materialized("local attention", grad_output, grad_scores)
        if torch.is_grad_enabled():
            left, key, value, center = fresh_views(left, key, value, center)
            (context, again, _), _ = _by_torch(left, key, value, center, lengths, ctx.window, first)
            return *_again((context, again), (grad_output, grad_scores), (left, key, value, center), wanted), *nothing
        call = _Call(left, key, value, center, lengths, ctx.window)
        return *call.backward((scores, first, order), grad_output, grad_scores, wanted), *nothing


class _Predict(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, vector: Tensor, lengths: Tensor, center: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, vector, lengths, center)
        return center

    @staticmethod
    @unbatched
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        hidden, vector, lengths, center = ctx.saved_tensors
        (grad_output,) = materialized("a center of local attention", grad_output)
        wanted = ctx.needs_input_grad[:2]
        if torch.is_grad_enabled():
            hidden, vector = fresh_views(hidden, vector)
            found = _predict_by_torch(hidden, vector, lengths)
            return *_again((found,), (grad_output,), (hidden, vector), wanted), None, None
        to_hidden, parts = torch.empty_like(hidden), vector.new_empty(loops.PARTS, vector.shape[-1])
        loops.predict_backward(
            **_predicted(hidden, vector, lengths),
            center=center,
            above=grad_output.contiguous(),
            to_hidden=to_hidden,
            to_vector=parts,
        )
        each = (to_hidden, parts.sum(0).view(vector.shape))
        return *(one if needing else None for one, needing in zip(each, wanted, strict=True)), None, None


def _again(
    made: tuple[Tensor, ...], grad_output: tuple[Tensor | None, ...], inputs: Sequence[Tensor], wanted: tuple[bool, ...]
) -> list[Tensor | None]:
    """The gradients as torch makes them, which can be differentiated themselves."""
    known = [(one, given) for one, given in zip(made, grad_output, strict=True) if given is not None]
    needing = [one for one, needed in zip(inputs, wanted, strict=True) if needed]
    outputs, given = zip(*known, strict=True)
    found = iter(torch.autograd.grad(outputs, needing, given, create_graph=True, allow_unused=True))
    return [next(found) if needed else None for needed in wanted]


def _predicted(hidden: Tensor, vector: Tensor, lengths: Tensor) -> dict[str, Any]:
    """What the loops of the prediction are given first."""
    batch, queries, width = hidden.shape
    sizes = {"batch": batch, "queries": queries, "width": width}
    return {**sizes, "hidden": hidden, "vector": vector.contiguous(), "lengths": lengths}
