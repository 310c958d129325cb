"""torch's `flex_attention`: masks that are functions of positions, block by block, with no table of queries × keys.

Blocks that are masked out whole are not computed (Dong et al. 2024, "Flex Attention"). On a GPU both the kernel and the
search for these blocks are compiled by torch; elsewhere torch has the formula alone, and no backward pass.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

_LEAST_WIDTH = 16
"""Of queries, keys and values: what the kernel's products of blocks need."""

_KINDS = torch.float32, torch.bfloat16, torch.float16

_KERNELS = 256
"""Kernels that torch may make of `flex_attention`: one for each kind of mask, of heads and of dtype, not for each size.

From its own limit of 8 on it would compute all pairs, with tables of them, and say so in its log alone.
"""


def refuses(query: Tensor, value: Tensor) -> str | None:
    """Why the kernel does not take such a call, in words; None where it does."""
    if not query.is_cuda:
        return "flex_attention is for a GPU"
    if query.dtype not in _KINDS:
        return f"flex_attention takes float32, bfloat16 and float16; these are {query.dtype}"
    if min(query.shape[-1], value.shape[-1]) < _LEAST_WIDTH:
        return f"flex_attention takes vectors of {_LEAST_WIDTH} numbers and more"
    return None


def blocks_of(
    mask_mod: Callable[..., Tensor], batch: int, heads: int, queries: int, keys: int, device: torch.device
) -> BlockMask:
    """Which blocks of queries × keys a mask leaves whole, in part or not at all.

    Args:
        mask_mod: a function of (b, h, q, k), whole numbers as tensors.
        batch: items; 1 where all have the same mask.
        heads: likewise of the query.
        queries: of a head.
        keys: of a head.
        device: where they lie.
    """
    # Compiled, the search draws no table either.
    made: BlockMask = create_block_mask(mask_mod, batch, heads, queries, keys, device, _compile=device.type == "cuda")
    return made


def attention(
    query: Float[Tensor, "batch heads queries dim"],
    key: Float[Tensor, "batch key_heads keys dim"],
    value: Float[Tensor, "batch key_heads keys value_dim"],
    *,
    blocks: BlockMask,
    scale: float,
) -> Float[Tensor, "batch heads queries value_dim"]:
    """`softmax(scale · q kᵀ, masked out where the blocks' function says so) v`; a fully masked query gets zeros."""
    run = _compiled() if query.is_cuda else flex_attention
    with torch._dynamo.config.patch(recompile_limit=_KERNELS):
        context, beside = run(
            query,
            key,
            value,
            block_mask=blocks,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
            return_aux=AuxRequest(lse=True),
        )
    log_sums = beside.lse
    return torch.where(log_sums.detach().unsqueeze(-1) == -torch.inf, 0.0, context)


@functools.cache
def _compiled() -> Any:
    return torch.compile(flex_attention, dynamic=True)
