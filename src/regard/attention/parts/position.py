"""Positions: four kinds of part that tell attention where a token stands; here the first kind and what all share.

`position_factory.py` makes each of them by its name.

    add     add(x, positions) -> x                                              sinusoidal, learned (this file)
    rotate  rotate(query, key, query_positions, key_positions) -> query, key    rotary (rotary.py)
    bias    bias(query_positions, key_positions) -> (batch, heads, Tq, Tk)      t5, alibi (position_bias.py)
    score   a Score that wraps a Score                                          shaw (relative.py)

Positions are whole numbers `(batch, positions)` that are always passed and count real tokens, so padding on either
side changes nothing; a batch of 1 serves every item. Tables are computed from the positions at each call, in at least
float32, and cast last: there is nothing that could grow, be rounded by `half()`, or remember an earlier input.
"""

from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.attended import transformed
from regard.errors import ConfigError, MaskError, ShapeError, TooLong, quoted
from regard.registry import Registry

POSITIONS: Registry[Any] = Registry("position")


class Position(nn.Module):
    """A part that knows positions; `kind` says which verb it has: "add", "rotate" or "bias"."""

    kind: ClassVar[str]


def positions(keep: Shaped[Tensor, "batch positions"]) -> Int[Tensor, "batch positions"]:
    """Number the real tokens of each row from 0; padding takes the number of the real token before it, or 0.

    `[0, 0, 1, 1, 1]` gives `0, 0, 0, 1, 2`; `[1, 1, 0]` gives `0, 1, 1`.

    Args:
        keep: bool, True where a token is real.

    Raises:
        MaskError: `keep` holds numbers instead of booleans.
    """
    if not isinstance(keep, Tensor):
        raise MaskError(
            f"positions(keep) takes a bool tensor (batch, positions), True at real tokens; it was {quoted(keep)}"
        )
    if keep.dtype != torch.bool:
        raise MaskError(f"positions(keep) got {keep.dtype}, expected bool, True at real tokens; use keep.bool()")
    return (keep.long().cumsum(-1) - 1).clamp(min=0)


@POSITIONS.register("sinusoidal")
class Sinusoidal(Position):
    """Sines and cosines of falling frequency (Vaswani 2017, section 3.5); works at any position.

    PE(p, 2i) = sin(p / base^(2i/dim)), PE(p, 2i + 1) = cos(p / base^(2i/dim)).

    Args:
        dim: the width of x; even.
        base: the paper's 10000.

    Raises:
        ConfigError: an odd width.
    """

    kind = "add"

    def __init__(self, dim: int, base: float = 10000.0) -> None:
        super().__init__()
        check_even(dim, "sinusoidal")
        self.dim, self.base = dim, base

    def add(
        self, x: Float[Tensor, "batch positions dim"], positions: Int[Tensor, "#batch positions"]
    ) -> Float[Tensor, "batch positions dim"]:
        """X plus its positions, in the type of x."""
        _check_width(x, self.dim, "sinusoidal")
        exact = exact_dtype(x.dtype)
        return (x.to(exact) + sinusoids(positions, self.dim, self.base, exact)).to(x.dtype)

    forward = add

    def extra_repr(self) -> str:
        """Width and base, for `print(module)`."""
        return f"dim={self.dim}, base={self.base}"


def sinusoids(
    positions: Int[Tensor, "batch positions"], dim: int, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "batch positions dim"]:
    """The table of `Sinusoidal` at the given positions: sine at even features, cosine at odd ones.

    PE(p + k) is a rotation of PE(p) that does not depend on p: each pair of features turns by k · frequency.
    """
    phase = angles(positions, dim, base, dtype)
    return torch.stack((phase.sin(), phase.cos()), dim=-1).flatten(-2)


@POSITIONS.register("learned")
class Learned(Position):
    """One learned vector a position (Gehring 2017; Vaswani 2017, section 3.5); it ends where its table ends.

    Args:
        count: how many positions there are: 0 to count − 1.
        dim: the width of x.

    Raises:
        TooLong: on a call with a position past the end (a run-time assertion inside compiled code).
    """

    kind = "add"

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, dim).normal_(std=0.02))

    def add(
        self, x: Float[Tensor, "batch positions dim"], positions: Int[Tensor, "#batch positions"]
    ) -> Float[Tensor, "batch positions dim"]:
        """X plus its positions, in the type of x."""
        _check_width(x, self.weight.shape[1], "learned")
        self._check_end(positions)
        return (x + self.weight[positions]).to(x.dtype)

    forward = add

    def _check_end(self, positions: Tensor) -> None:
        count = self.weight.shape[0]
        if torch.compiler.is_compiling():  # a Python branch on data would break the graph; an assertion stays inside it
            inside = ((positions >= 0) & (positions < count)).all()
            torch._assert_async(inside, f"a position lies outside the {count} learned ones")
        elif not transformed() and positions.numel():  # inside vmap nothing can be asked; torch's index error remains
            first, last = (int(end) for end in positions.aminmax())
            if first < 0 or last >= count:
                raise TooLong(
                    f"the learned position part holds positions 0 to {count - 1}, but was asked for {first} to {last};"
                    " shorten the input, make the part with a larger count, or use a kind without an end (sinusoidal,"
                    " rotary, alibi, t5, shaw)"
                )

    def extra_repr(self) -> str:
        """Sizes, for `print(module)`."""
        return f"count={self.weight.shape[0]}, dim={self.weight.shape[1]}"


def angles(
    positions: Int[Tensor, "batch positions"], dim: int, base: float, dtype: torch.dtype
) -> Float[Tensor, "batch positions pairs"]:
    """Position · base^(−2i/dim) for each of the dim/2 pairs of features."""
    # Frequencies in float64 where the device has it: an error in the exponent would be multiplied by the position.
    fine = torch.float32 if positions.device.type == "mps" else torch.float64
    pairs = torch.arange(dim // 2, device=positions.device, dtype=fine)
    return positions.unsqueeze(-1).to(dtype) * (base ** (pairs * (-2.0 / dim))).to(dtype)


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type positions are computed in: float64 stays, everything else is float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_even(dim: int, name: str) -> None:
    """Features go in pairs.

    Raises:
        ConfigError: the width is odd, or below 2.
    """
    if dim < 2 or dim % 2:
        raise ConfigError(f"{name}: dim must be even, since features go in pairs; got {dim}")


def _check_width(x: Tensor, dim: int, name: str) -> None:
    if x.shape[-1] != dim:
        raise ShapeError(f"the {name} position part has width {dim}, but x has width {x.shape[-1]}: {tuple(x.shape)}")
