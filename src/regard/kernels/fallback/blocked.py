"""Softmax attention in blocks of queries: dropout, or a bias that is learned, without queries × keys.

scaled_dot_product_attention forms every weight of every head for these, and keeps it until the gradients are made.
Here the weights of one block are made, used and forgotten; the backward pass makes them again. Dropout's draws come
from a seed of torch's generator, so that the backward pass repeats them. Weights recomputed backward: Dao et al. 2022,
section 3.1.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd.once_differentiable import once_differentiable
from regard.kernels.autograd.plain import materialized
from regard.kernels.autograd.unbatch import unbatched
from regard.kernels.fallback.sdpa import fused, prepared, ungrouped
from regard.kernels.loss import dropout as dropouts

BLOCK = 2**19
"""Weights at a time: what stays in a cache of the second or third level."""

_ROWS = 16  # queries of a block at least


def blocked(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*key_lead keys dim"],
    value: Float[Tensor, "*key_lead keys value_dim"],
    *,
    keep: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> Float[Tensor, "*lead queries value_dim"]:
    """`dropout(softmax(scale · q kᵀ + bias, masked out where not keep)) v`. Can be differentiated once.

    Args:
        query: as `fused` takes it, as are key, value, keep and bias; on a CPU.
        key: key vectors.
        value: value vectors.
        keep: which keys may be attended to, with as many axes as the scores.
        bias: likewise.
        causal: query i attends to no key beyond i, as many queries as keys.
        scale: of the products.
        dropout: the rate, rounded to a multiple of 1/65,536.

    Returns:
        The context, in the query's type; a fully masked query gets a zero context.
    """
    headless = query.ndim == 3
    kind = query.dtype
    query, key, value = ungrouped(*prepared(query, key, value))
    if headless:
        keep = None if keep is None else keep.unsqueeze(1)
        bias = None if bias is None else bias.unsqueeze(1)
    if bias is not None:
        bias = bias.to(query.dtype)
    context: Tensor = _Blocked.apply(
        query, key, value, bias, keep, _Call(causal, scale, round(dropout * dropouts.LEVELS))
    )
    context = context.to(kind)
    return context.squeeze(1) if headless else context


class _Call(NamedTuple):
    causal: bool
    scale: float
    dropped: int  # of 65,536 weights


class _Block(NamedTuple):
    """Some heads of one item, some rows of queries, and the keys that these may attend to."""

    heads: tuple[int, slice]
    rows: slice
    keys: slice

    def of(self, tensor: Tensor) -> Tensor:
        """Its part of `(batch or 1, heads or 1, queries or 1, keys or 1)`."""
        item, heads = self.heads
        each = (slice(item, item + 1), heads, self.rows, self.keys)
        part = tensor[tuple(slice(None) if size == 1 else one for size, one in zip(tensor.shape, each, strict=True))]
        return part.squeeze(0)


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, keep: Tensor | None, call: _Call
    ) -> Tensor:
        seed = int(torch.randint(2**62, (), device="cpu")) if call.dropped else 0
        if call.dropped == 0:
            # Detached: torch takes its slow way for a mask that needs a gradient, even where none is made.
            detached = None if bias is None else bias.detach()
            context = fused(query, key, value, keep=keep, bias=detached, causal=call.causal, scale=call.scale)
        else:
            context = query.new_zeros(*query.shape[:-1], value.shape[-1])
            passes = _Weights(query, key, bias, keep, call, seed)
            for block, weights in passes.weights():
                multipliers = passes.multipliers(weights)
                item, heads = block.heads
                context[item, heads, block.rows] = torch.bmm(weights.mul_(multipliers), value[item, heads, block.keys])
        ctx.save_for_backward(query, key, value, bias, keep, context)
        ctx.call, ctx.seed = call, seed
        return context

    @staticmethod
    @unbatched
    @once_differentiable("attention by blocks; attend(…, refocus=[lambda weights: weights]) takes a path that has them")
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, keep, context = ctx.saved_tensors
        (upstream,) = materialized("attention by blocks", upstream)
        call: _Call = ctx.call
        to_query, to_key, to_value = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
        to_bias = torch.zeros_like(bias) if ctx.needs_input_grad[3] else None
        # Σ_j P_ij dP_ij = dO_i · O_i, whatever was dropped
        diagonal = (upstream * context).sum(-1, keepdim=True)
        passes = _Weights(query, key, bias, keep, call, ctx.seed)
        for block, weights in passes.weights():
            item, heads = block.heads
            grad_output, query_block = upstream[item, heads, block.rows], query[item, heads, block.rows]
            grad_scores = torch.bmm(grad_output, value[item, heads, block.keys].transpose(1, 2))
            read = weights
            if call.dropped:
                multipliers = passes.multipliers(weights)
                grad_scores.mul_(multipliers)
                read = multipliers.mul_(weights)
            to_value[item, heads, block.keys].baddbmm_(read.transpose(1, 2), grad_output)
            grad_scores.sub_(diagonal[item, heads, block.rows]).mul_(weights)
            if to_bias is not None:
                part = block.of(to_bias)
                part += grad_scores.sum_to_size(part.shape)
            grad_scores.mul_(call.scale)
            torch.bmm(grad_scores, key[item, heads, block.keys], out=to_query[item, heads, block.rows])
            to_key[item, heads, block.keys].baddbmm_(grad_scores.transpose(1, 2), query_block)
        return to_query, to_key, to_value, to_bias, None, None


class _Weights:
    """The weights block by block, with the same random numbers on every pass with one seed."""

    def __init__(
        self, query: Tensor, key: Tensor, bias: Tensor | None, keep: Tensor | None, call: _Call, seed: int
    ) -> None:
        self.query, self.key, self.bias, self.keep, self.call = query, key, bias, keep, call
        from numpy.random import SFC64  # when it is needed: not every program that imports torch waits for numpy

        self.source = SFC64(seed)

    def weights(self) -> Iterator[tuple[_Block, Tensor]]:
        query, key, call = self.query, self.key, self.call
        for block in self._blocks():
            item, heads = block.heads
            query_block, key_block = query[item, heads, block.rows], key[item, heads, block.keys]
            scores = torch.bmm(query_block * call.scale, key_block.transpose(1, 2))
            if self.bias is not None:
                scores += block.of(self.bias)
            if self.keep is not None:
                scores.masked_fill_(~block.of(self.keep), -torch.inf)
            if call.causal:
                first, beyond = block.rows.start, block.rows.stop - block.rows.start
                masked_out = torch.ones(beyond, beyond, dtype=torch.bool, device="cpu").triu(1)
                scores[:, :, first:].masked_fill_(masked_out, -torch.inf)
            weights = torch.softmax(scores, -1)
            if self.bias is not None or self.keep is not None:
                weights.masked_fill_(scores.amax(-1, keepdim=True) == -torch.inf, 0.0)  # nothing may be attended to
            yield block, weights

    def multipliers(self, weights: Tensor) -> Tensor:
        """For each weight of a block 0, or what a weight that stays is multiplied by."""
        drawn = torch.from_numpy(self.source.random_raw(dropouts.draws(weights.numel())).view("int64"))
        return dropouts.multipliers(dropouts.bits_of(drawn, weights), self.call.dropped, weights.dtype)

    def _blocks(self) -> Iterator[_Block]:
        batch, heads, queries, _ = self.query.shape
        keys = self.key.shape[2]
        rows = min(queries, max(_ROWS, BLOCK // max(1, keys)))
        together = max(1, BLOCK // max(1, rows * keys))
        for item in range(batch):
            for head in range(0, heads, together):
                for row in range(0, queries, rows):
                    last = min(row + rows, queries)
                    visible = last if self.call.causal else keys
                    some = slice(head, min(head + together, heads))
                    yield _Block((item, some), slice(row, last), slice(0, visible))
