"""A sliding window in blocks: each block of queries meets the keys of its own window, through views, not copies."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.sdpa import prepared

_ROWS = 64  # queries of a block at least; it computes left + right keys more than its queries see


def windowed(
    query: Float[Tensor, "*lead positions dim"],
    key: Float[Tensor, "*key_lead positions dim"],
    value: Float[Tensor, "*key_lead positions value_dim"],
    *,
    left: int,
    right: int,
    scale: float,
) -> Float[Tensor, "*lead positions value_dim"]:
    """`softmax(scale · q kᵀ) v` where query i sees the keys i − left … i + right; as many queries as keys.

    Args:
        query: what asks, `(batch, [heads,] positions, dim)`.
        key: what is compared; its heads may divide the query's.
        value: what is read.
        left, right: positions seen beside the query's own.
        scale: of the products.
    """
    headless, kind, positions = query.ndim == 3, query.dtype, query.shape[-2]
    query, key, value = prepared(query, key, value)
    share = query.shape[1] // key.shape[1]
    rows = max(_ROWS, (left + right) // 2)
    blocks = -(-positions // rows)
    spare = blocks * rows - positions
    queries = (F.pad(query, (0, 0, 0, spare)) if spare else query).unflatten(2, (blocks, rows))
    width = rows + left + right

    def windows(of: Tensor) -> Tensor:
        """(batch, heads, positions, dim) -> (batch, heads, blocks, width, dim), overlapping."""
        return F.pad(of, (0, 0, left, right + spare)).unfold(2, width, rows).transpose(-2, -1)

    keys, values = windows(key), windows(value)
    mask = _mask(positions, blocks, rows, left, right, query)
    # A block stands where SDPA has a head, a head where it has an item: what all heads share has an axis of 1.
    contexts = [
        F.scaled_dot_product_attention(
            asked, _for_heads(held, share), _for_heads(given, share), attn_mask=mask, scale=scale
        )
        for asked, held, given in zip(queries.unbind(0), keys.unbind(0), values.unbind(0), strict=True)
    ]
    context = torch.stack(contexts).flatten(2, 3)[:, :, :positions].to(kind)
    return context.squeeze(1) if headless else context


def _for_heads(rows: Tensor, share: int) -> Tensor:
    return rows if share == 1 else rows.repeat_interleave(share, dim=0)


def _mask(positions: int, blocks: int, rows: int, left: int, right: int, like: Tensor) -> Tensor:
    """Added to the scores, (1, blocks, rows, keys of a block): 0 where a query sees a key, −inf elsewhere."""
    place = torch.arange(rows + left + right, device=like.device)
    offset = place - torch.arange(rows, device=like.device).unsqueeze(-1)
    stands = torch.arange(0, blocks * rows, rows, device=like.device)[:, None, None] + place - left
    seen = (offset >= 0) & (offset <= left + right) & (stands >= 0) & (stands < positions)
    return torch.where(seen, 0.0, -torch.inf).to(like.dtype).unsqueeze(0)
