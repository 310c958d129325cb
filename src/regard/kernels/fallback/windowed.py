"""A sliding window in blocks: each block of queries meets the keys of its own window, through views, not copies.

Sliding-window attention as in Longformer (Beltagy, Peters & Cohan 2020, section 3.1).
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd.once_differentiable import once_differentiable
from regard.kernels.autograd.plain import materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.fallback.sdpa import prepared, ungrouped

_ROWS = 64  # queries of a block at least


def windowed(
    query: Float[Tensor, "*lead positions dim"],
    key: Float[Tensor, "*key_lead positions dim"],
    value: Float[Tensor, "*key_lead positions value_dim"],
    *,
    left: int,
    right: int,
    scale: float,
) -> Float[Tensor, "*lead positions value_dim"]:
    """`softmax(scale · q kᵀ) v` where query i attends to the keys i − left … i + right. Can be differentiated once.

    Args:
        query: query vectors, `(batch, [heads,] positions, dim)`.
        key: key vectors, as many as queries; its heads may divide the query's.
        value: value vectors.
        left, right: positions attended to beside the query's own.
        scale: of the products.
    """
    headless, kind = query.ndim == 3, query.dtype
    query, key, value = ungrouped(*prepared(query, key, value))
    positions, rows = query.shape[-2], block_rows(left, right)
    cut = _Cut(positions, -(-positions // rows), rows, left, right)
    context: Tensor = _Windowed.apply(query, key, value, cut, scale)
    context = context.to(kind)
    return context.squeeze(1) if headless else context


def block_rows(left: int, right: int) -> int:
    """How many queries a block has; it meets left + right keys more than that."""
    return max(_ROWS, (left + right) // 2)


class _Cut(NamedTuple):
    """How positions are cut into blocks of queries and windows of keys."""

    positions: int
    blocks: int
    rows: int
    left: int
    right: int

    @property
    def width(self) -> int:
        return self.rows + self.left + self.right

    def rows_of(self, rows: Tensor) -> Tensor:
        """(…, positions, dim) -> (…, blocks, rows, dim)."""
        spare = self.blocks * self.rows - self.positions
        return (F.pad(rows, (0, 0, 0, spare)) if spare else rows).unflatten(-2, (self.blocks, self.rows))

    def windows_of(self, rows: Tensor) -> Tensor:
        """(…, positions, dim) -> (…, blocks, width, dim), overlapping."""
        after = self.right + self.blocks * self.rows - self.positions
        return F.pad(rows, (0, 0, self.left, after)).unfold(-2, self.width, self.rows).transpose(-2, -1)

    def joined(self, windows: Tensor) -> Tensor:
        """The sum of what all windows say of a position: (blocks, width, dim) -> (positions, dim)."""
        shifts, dim = -(-self.width // self.rows), windows.shape[-1]
        total = windows.new_zeros((self.blocks + shifts) * self.rows, dim)
        for shift in range(shifts):
            part = windows[:, shift * self.rows : (shift + 1) * self.rows]
            place = total[shift * self.rows : (shift + self.blocks) * self.rows].view(self.blocks, self.rows, dim)
            place[:, : part.shape[1]] += part
        return total[self.left : self.left + self.positions]

    def mask(self, like: Tensor) -> Tensor:
        """Added to the scores, (blocks, rows, width): 0 where a query attends to a key, −inf elsewhere."""
        place = torch.arange(self.width, device=like.device)
        offset = place - torch.arange(self.rows, device=like.device).unsqueeze(-1)
        stands = (
            torch.arange(0, self.blocks * self.rows, self.rows, device=like.device).unsqueeze(-1) + place - self.left
        )
        near = (offset >= 0) & (offset <= self.left + self.right)
        real = (stands >= 0) & (stands < self.positions)
        band, edges = (torch.where(each, 0.0, -torch.inf).to(like.dtype) for each in (near, real))
        mask = band + edges.unsqueeze(1)
        mask[-1, self.rows - (self.blocks * self.rows - self.positions) :] = 0.0  # no queries: seeing nothing is 0/0
        return mask


class _Windowed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, cut: _Cut, scale: float) -> Tensor:
        mask = cut.mask(query).unsqueeze(0)
        # A block stands where SDPA has a head, a head where it has an item.
        contexts = [
            F.scaled_dot_product_attention(
                cut.rows_of(query_block),
                cut.windows_of(key_block),
                cut.windows_of(value_block),
                attn_mask=mask,
                scale=scale,
            )
            for query_block, key_block, value_block in zip(query, key, value, strict=True)
        ]
        context = torch.stack(contexts).flatten(2, 3)[:, :, : cut.positions]
        ctx.save_for_backward(query, key, value, context)
        ctx.cut, ctx.scale = cut, scale
        return context

    @staticmethod
    @unbatched
    @once_differentiable(
        "attention over a window; attend(…, refocus=[lambda weights: weights]) takes a path that has them"
    )
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        cut: _Cut = ctx.cut
        (upstream,) = materialized("attention over a window", upstream)
        query, key, value, context = (tensor.flatten(0, 1) for tensor in ctx.saved_tensors)
        mask = cut.mask(query)
        gradients = [torch.empty_like(tensor) for tensor in (query, key, value)]
        # Σ_j P_ij dP_ij = dO_i · O_i
        diagonal = (upstream.flatten(0, 1) * context).sum(-1, keepdim=True)
        for head, grad_output in enumerate(upstream.flatten(0, 1)):
            query_block, grad_output = cut.rows_of(query[head]), cut.rows_of(grad_output)
            key_block, value_block = cut.windows_of(key[head]), cut.windows_of(value[head])
            weights = torch.softmax(torch.baddbmm(mask, query_block, key_block.mT, alpha=ctx.scale), -1)
            grad_scores = (
                torch.bmm(grad_output, value_block.mT).sub_(cut.rows_of(diagonal[head])).mul_(weights).mul_(ctx.scale)
            )
            gradients[0][head] = torch.bmm(grad_scores, key_block).flatten(0, 1)[: cut.positions]
            gradients[1][head] = cut.joined(torch.bmm(grad_scores.mT, query_block))
            gradients[2][head] = cut.joined(torch.bmm(weights.mT, grad_output))
        to_query, to_key, to_value = (
            grad_scores.view(tensor.shape) for grad_scores, tensor in zip(gradients, ctx.saved_tensors, strict=False)
        )
        return to_query, to_key, to_value, None, None
