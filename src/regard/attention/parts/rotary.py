"""Rotary positions: queries and keys are turned, so that their score depends on the distance alone."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.parts.position import POSITIONS, Position, angles, check_even, exact_dtype
from regard.errors import ConfigError, ShapeError


@POSITIONS.register("rotary")
class Rotary(Position):
    """Turns pairs of features by an angle that grows with the position (Su 2021, equations 14, 15 and 34).

    ⟨R_m q, R_n k⟩ = ⟨q, R_(n−m) k⟩. The two conventions give the same attention after a fixed permutation of the
    features, but weights that were trained with one are wrong with the other.

    Args:
        dim: how many features of a head turn; even. Those after them pass unchanged (partial rotary).
        base: the paper's 10000.
        convention: "interleaved" pairs features (2i, 2i + 1), as in the paper; "half" pairs (i, i + dim/2), as in
            GPT-NeoX and Llama.
        stretch: positions are divided by it (position interpolation, Chen 2023); 1 is the paper. It is fixed, never
            taken from the length of an input.

    Raises:
        ConfigError: an odd width, an unknown convention, or a stretch that is not above 0.
    """

    kind = "rotate"

    def __init__(self, dim: int, base: float = 10000.0, convention: str = "interleaved", stretch: float = 1.0) -> None:
        super().__init__()
        check_even(dim, "rotary")
        if convention not in ("interleaved", "half"):
            raise ConfigError(
                f'rotary: convention must be "interleaved" (Su 2021) or "half" (GPT-NeoX, Llama), got {convention!r}'
            )
        if not stretch > 0:
            raise ConfigError(f"rotary: stretch must be above 0, got {stretch}")
        self.dim, self.base, self.convention, self.stretch = dim, base, convention, stretch

    def rotate(
        self,
        query: Float[Tensor, "batch *query_heads queries dim"],
        key: Float[Tensor, "batch *key_heads keys dim"],
        query_positions: Int[Tensor, "#batch queries"],
        key_positions: Int[Tensor, "#batch keys"],
    ) -> tuple[Float[Tensor, "batch *query_heads queries dim"], Float[Tensor, "batch *key_heads keys dim"]]:
        """Query and key, each turned by its own positions, in its own type."""
        return self.rotate_one(query, query_positions), self.rotate_one(key, key_positions)

    forward = rotate

    def rotate_one(
        self, x: Float[Tensor, "batch *heads positions dim"], positions: Int[Tensor, "#batch positions"]
    ) -> Float[Tensor, "batch *heads positions dim"]:
        """One side alone; a turned key may be cached."""
        return self.rotation_at(positions)(x)

    def rotation_at(self, positions: Int[Tensor, "#batch positions"]) -> Callable[[Tensor], Tensor]:
        """What turns one side at these positions; sines and cosines are made once for all that it is given."""
        made: dict[tuple[torch.dtype, int], tuple[Tensor, Tensor]] = {}

        def rotate(x: Tensor) -> Tensor:
            if x.shape[-1] < self.dim:
                raise ShapeError(
                    f"rotary turns {self.dim} features, but {tuple(x.shape)} has {x.shape[-1]};"
                    " make it with dim at most the width of one head"
                )
            exact = exact_dtype(x.dtype)
            if (exact, x.ndim) not in made:
                angle = angles(positions, self.dim, self.base, exact) / self.stretch
                if x.ndim == 4:
                    angle = angle.unsqueeze(1)  # (batch, 1, positions, dim/2): the same for every head
                made[exact, x.ndim] = angle.cos(), angle.sin()
            pairs, rest = x[..., : self.dim].to(exact), x[..., self.dim :]
            rotated = _rotate_pairs(pairs, *made[exact, x.ndim], self.convention)
            return torch.cat((rotated.to(x.dtype), rest), dim=-1)

        return rotate

    def extra_repr(self) -> str:
        """Sizes and convention, for `print(module)`."""
        return f"dim={self.dim}, base={self.base}, convention={self.convention!r}, stretch={self.stretch}"


def _rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor, convention: str) -> Tensor:
    if convention == "interleaved":
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).flatten(-2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
