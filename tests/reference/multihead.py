"""Multi-head attention written out: one item, one head, one query, one key at a time. Slow and obviously right."""

import math

import torch
from torch import Tensor


def linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    y = weight @ x
    return y if bias is None else y + bias


def multihead(attention, query: Tensor, key: Tensor, value: Tensor, seen) -> tuple[Tensor, Tensor]:
    """Context `(batch, queries, dim)` and weights `(batch, heads, queries, keys)` of scaled dot products.

    `seen(b, h, q, k)` says whether a query may see a key.
    """
    heads, key_heads = attention.heads, attention.key_heads
    contexts, weights = [], []
    for b in range(query.shape[0]):
        queries = [linear(attention.query.weight, attention.query.bias, x).chunk(heads) for x in query[b]]
        keys = [linear(attention.key.weight, attention.key.bias, x).chunk(key_heads) for x in key[b]]
        values = [linear(attention.value.weight, attention.value.bias, x).chunk(key_heads) for x in value[b]]
        of_item, weights_of_item = [], []
        for i, asked in enumerate(queries):
            read, of_query = [], []
            for h in range(heads):
                of = h * key_heads // heads
                visible = [j for j in range(len(keys)) if seen(b, h, i, j)]
                row = torch.zeros(len(keys), dtype=query.dtype)
                context = torch.zeros_like(values[0][of])
                if visible:
                    scores = [(asked[h] * keys[j][of]).sum() / math.sqrt(len(asked[h])) for j in visible]
                    shares = torch.softmax(torch.stack(scores), 0)
                    row[visible] = shares
                    for share, j in zip(shares, visible, strict=True):
                        context = context + share * values[j][of]
                read.append(context)
                of_query.append(row)
            of_item.append(linear(attention.output.weight, attention.output.bias, torch.cat(read)))
            weights_of_item.append(torch.stack(of_query, 0))
        contexts.append(torch.stack(of_item))
        weights.append(torch.stack(weights_of_item, 1))
    return torch.stack(contexts), torch.stack(weights)
