"""What the loop of dot products draws for dropout; and the same draws by torch's calls, for a call that it gave back.

Whether a weight is dropped is a mixture of a seed, its row's number and its key (`Draws` in `call.hpp`), so that
the backward pass finds the draws of the forward pass. What is masked out may decide who takes a call, but not what is
dropped.
"""

import torch
from jaxtyping import Float, Int32
from torch import Tensor

STEPS = 2**32
"""A rate is a multiple of this part of 1."""

_BLOCK = 2**16  # draws that are made at once, so that they stay near the processor


def new_seed() -> int:
    """Drawn from torch's generator."""
    return int(torch.randint(2**62, (), device="cpu"))


def multipliers(
    seed: int, rate: float, weights: Float[Tensor, "*lead queries keys"]
) -> Float[Tensor, "*lead queries keys"]:
    """For each weight 0, or what one that stays is multiplied by, so that the expectation is as it was.

    Args:
        seed: of the call.
        rate: the part that is dropped, rounded to a multiple of 1 / `STEPS`.
        weights: only their shape, type and device matter; there are keys.
    """
    dropped, keys = round(rate * STEPS), weights.shape[-1]
    made = torch.empty_like(weights, memory_format=torch.contiguous_format)
    rows = made.view(-1, keys)
    first, second = (half.unsqueeze(-1) for half in _of_rows(seed, len(rows), weights.device))
    places = (torch.arange(keys, device=weights.device) * 0x9E3779B9 << 32 >> 32).to(torch.int32)
    for start in range(0, len(rows), step := max(1, _BLOCK // keys)):
        part = slice(start, start + step)
        x = places + first[part]
        x = x.bitwise_xor_(x >> 16 & 0xFFFF).mul_(0x21F0AAAD).add_(second[part])
        x = x.bitwise_xor_(x >> 15 & 0x1FFFF).mul_(_signed(0xD35A2D97, 32))
        x = x.bitwise_xor_(x >> 15 & 0x1FFFF)
        # As numbers without a sign.
        torch.ge(x.bitwise_xor_(-(2**31)), min(dropped, STEPS - 1) - 2**31, out=rows[part])
    return made.mul_(STEPS / (STEPS - dropped) if dropped < STEPS else 0.0)


def _of_rows(seed: int, rows: int, device: torch.device) -> tuple[Int32[Tensor, " rows"], Int32[Tensor, " rows"]]:
    """Two numbers of 32 bits for each row, by splitmix64."""
    x = torch.arange(1, rows + 1, device=device) * _signed(0x9E3779B97F4A7C15, 64) + seed
    x = (x ^ (x >> 30 & 2**34 - 1)) * _signed(0xBF58476D1CE4E5B9, 64)
    x = (x ^ (x >> 27 & 2**37 - 1)) * _signed(0x94D049BB133111EB, 64)
    x = x ^ (x >> 31 & 2**33 - 1)
    return (x << 32 >> 32).to(torch.int32), (x >> 32).to(torch.int32)


def _signed(number: int, bits: int) -> int:
    return number - 2**bits if number >= 2 ** (bits - 1) else number
