"""Refocus: weights become other weights, (…, queries, keys) to the same shape.

Each function binds what the step gives and returns a callable; `attend(…, refocus=[…])` applies them left to right.
The stages are those of Graves, Wayne & Danihelka (2014, §3.3) and of Luong, Pham & Manning (2015, eq. 10).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.parts.functional import per_query, wide
from regard.errors import ConfigError, ShapeError, quoted

Weights = Float[Tensor, "*lead queries keys"]
Refocus = Callable[[Tensor], Tensor]


def interpolate(previous: Tensor, gate: float | Tensor) -> Refocus:
    """`g · w + (1 − g) · w_previous` (Graves 2014, eq. 7).

    Args:
        previous: the weights of the step before, (batch, keys), (batch, queries, keys) or the shape of the weights.
        gate: g in [0, 1], a number or a tensor of shape (batch,), (batch, queries) or (batch, heads, queries).
    """

    def apply(weights: Weights) -> Weights:
        earlier = _rows(wide(previous), weights, weights.shape[-1], "previous")
        share = per_query(gate, weights, "gate")
        return share * weights + (1 - share) * earlier

    return apply


def shift(kernel: Float[Tensor, "*lead shifts"]) -> Refocus:
    """Circular convolution `w̃(i) = Σ_j w(j) s(i − j)` (Graves 2014, eq. 8).

    Args:
        kernel: weights of the shifts −n … n, an odd number of them in the last axis: (shifts,), (batch, shifts),
            (batch, queries, shifts) or (batch, heads, queries, shifts). Shift +1 moves the focus from j to j + 1.

    Raises:
        ShapeError: an even number of shifts.
    """
    if kernel.shape[-1] % 2 == 0:
        raise ShapeError(f"a shift kernel needs an odd number of shifts (−n … n); it has shape {tuple(kernel.shape)}")

    def apply(weights: Weights) -> Weights:
        shares = wide(kernel)
        if shares.ndim > 1:
            shares = _rows(shares, weights, shares.shape[-1], "the shift kernel")
        reach = shares.shape[-1] // 2
        moved = [shares[..., s : s + 1] * weights.roll(s - reach, dims=-1) for s in range(shares.shape[-1])]
        return torch.stack(moved).sum(0)

    return apply


def sharpen(exponent: float | Tensor) -> Refocus:
    """`w^γ / Σ w^γ` (Graves 2014, eq. 9), by logarithms: 0.25 to the power 200 does not vanish.

    Args:
        exponent: γ ≥ 1, a number or a tensor of shape (batch,), (batch, queries) or (batch, heads, queries).

    Raises:
        ConfigError: an exponent below 1, where its numbers can be read.
    """
    smallest = exponent if isinstance(exponent, int | float) else None
    if isinstance(exponent, Tensor) and exponent.device.type == "cpu" and not _traced() and exponent.numel():
        smallest = exponent.detach().min().item()
    if smallest is not None and not smallest >= 1:
        raise ConfigError(
            f"the sharpening exponent must be at least 1, or it blurs and may not be finite; it was {smallest}"
        )

    def apply(weights: Weights) -> Weights:
        positive = weights > 0
        logs = per_query(exponent, weights, "exponent") * torch.log(torch.where(positive, weights, 1.0))
        some = positive.any(-1, keepdim=True)
        logs = torch.where(positive, logs, -torch.inf)
        logs = torch.where(some, logs, 0.0)  # nothing to sharpen: stays 0, with gradient 0
        return torch.where(positive, torch.softmax(logs, dim=-1), 0.0)

    return apply


def gaussian_window(center: Tensor, sigma: float | Tensor) -> "GaussianWindow":
    """`w(s) · exp(−(s − p)² / 2σ²)`, not renormalised (Luong 2015, eq. 10).

    Args:
        center: p, (batch, queries) or (batch, heads, queries), in key positions from 0, real-valued.
        sigma: σ in key positions, a number above 0 or a tensor: one number, or shaped as the center may be; Luong
            takes half the radius.

    Raises:
        ConfigError: a standard deviation that is not above 0.
        ShapeError: a center that is no tensor.
    """
    if isinstance(sigma, int | float) and not sigma > 0:
        raise ConfigError(f"sigma must be above 0; it was {sigma}")
    if not isinstance(center, Tensor):
        raise ShapeError(
            f"the center is a tensor, (batch, queries) or (batch, heads, queries); it was {quoted(center)}"
        )

    return GaussianWindow(center, sigma)


class GaussianWindow:
    """What `gaussian_window` gives: a path that knows windows can tell it from other steps.

    Args:
        center: p.
        sigma: σ.
    """

    def __init__(self, center: Tensor, sigma: float | Tensor) -> None:
        self.center, self.sigma = center, sigma

    def __call__(self, weights: Weights) -> Weights:
        """Weights times the Gaussian of each key's distance from the center."""
        center = self.center
        real = wide(center) if center.is_floating_point() else center.to(weights.dtype)
        middle = _rows(real.unsqueeze(-1), weights, 1, "the center")
        width = per_query(self.sigma, weights, "sigma")
        distance = torch.arange(weights.shape[-1], device=weights.device, dtype=middle.dtype) - middle
        return weights * torch.exp(-(distance**2) / (2 * width**2))


def _rows(rows: Tensor, weights: Tensor, width: int, what: str) -> Tensor:
    """Rows of (batch, width), (batch, queries, width) or (batch, heads, queries, width) beside those of the weights."""
    given = tuple(rows.shape)
    if rows.ndim == 2:
        rows = rows.unsqueeze(1)
    if rows.ndim == 3 and weights.ndim == 4:
        rows = rows.unsqueeze(1)
    wanted = (*weights.shape[:-1], width)
    if rows.ndim != weights.ndim or any(have not in (1, want) for have, want in zip(rows.shape, wanted, strict=True)):
        raise ShapeError(f"{what} has rows of shape {given}, which do not fit weights of {tuple(weights.shape)}")
    return rows


def _traced() -> bool:
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None
