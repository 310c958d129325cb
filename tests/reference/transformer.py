"""A stack of blocks written out: a row without its padding, one query, one head at a time. Slow and obviously right."""

import math

import torch
from torch import Tensor

from tests.reference.positions import rotate, sinusoid, t5_bucket


def affine(linear, x: Tensor) -> Tensor:
    y = linear.weight @ x
    return y if linear.bias is None else y + linear.bias


def normed(norm, x: Tensor) -> Tensor:
    """Ba et al. 2016 with mean, or Zhang & Sennrich 2019 without."""
    if isinstance(norm, torch.nn.RMSNorm):
        return x / ((x * x).mean() + norm.eps).sqrt() * norm.weight
    if isinstance(norm, torch.nn.Identity):
        return x
    y = (x - x.mean()) / (((x - x.mean()) ** 2).mean() + norm.eps).sqrt() * norm.weight
    return y if norm.bias is None else y + norm.bias


def fed_forward(network, x: Tensor) -> Tensor:
    hidden = affine(network.inputs, x)
    if network.activation == "relu":
        hidden = torch.where(hidden > 0, hidden, 0.0)
    elif network.activation == "gelu":
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
    else:
        gate, hidden = hidden.chunk(2)
        hidden = gate / (1 + torch.exp(-gate)) * hidden
    return affine(network.output, hidden)


def look(heads, queries, keys, values, visible, score) -> list[Tensor]:
    """What each query reads of the keys that it sees, and brings back; `queries[i][h]`, `keys[j][k]`."""
    contexts = []
    for i, asked in enumerate(queries):
        read = []
        for h in range(heads.heads):
            of = h * heads.key_heads // heads.heads
            seen = visible(i)
            shares = torch.softmax(torch.stack([score(h, i, j, asked[h], keys[j][of]) for j in seen]), 0)
            read.append(sum(share * values[j][of] for share, j in zip(shares, seen, strict=True)))
        contexts.append(affine(heads.output, torch.cat(read)))
    return contexts


def scoring(position, heads, at: list[int]):
    """The score of head h between query i and key j."""

    def score(h, i, j, asked, key):
        kind, distance = type(position).__name__, at[j] - at[i]
        if kind == "Rotary":
            asked, key = (
                torch.tensor(rotate(vector.tolist(), at[place], position.convention), dtype=vector.dtype)
                for vector, place in ((asked, i), (key, j))
            )
        plain = (asked * key).sum() / math.sqrt(len(key))
        if kind == "Alibi":
            return plain - position.slopes[h] * abs(distance)
        if kind == "T5":
            return plain + position.weight[t5_bucket(distance, 32, 128, position.bidirectional), h]
        if type(heads.score).__name__ == "Shaw":
            clip = heads.score.clip
            vector = heads.score.weight[max(-clip, min(clip, distance)) + clip]
            return plain + (asked * vector).sum() / math.sqrt(len(key))
        return plain

    return score


def row(stack, x: Tensor, memory: Tensor | None = None, documents: list[int] | None = None) -> Tensor:
    """One row of real positions `(n, dim)`, over a real memory `(keys, dim)`."""
    n = len(x)
    of = documents or [0] * n
    at = [sum(1 for j in range(i) if of[j] == of[i]) for i in range(n)]
    xs = list(x)
    if type(stack.position).__name__ == "Sinusoidal":
        xs = [v + torch.tensor(sinusoid(p, len(v)), dtype=v.dtype) for v, p in zip(xs, at, strict=True)]
    elif type(stack.position).__name__ == "Learned":
        xs = [v + stack.position.weight[p] for v, p in zip(xs, at, strict=True)]

    def visible(i: int) -> list[int]:
        def seen(j: int) -> bool:
            near = stack.window is None or at[i] - at[j] < stack.window
            return of[i] == of[j] and near and (j <= i or not stack.causal)

        return [j for j in range(n) if seen(j)]

    def sub_layer(function, norm, order, xs):
        if order == "pre":
            return [v + added for v, added in zip(xs, function([normed(norm, v) for v in xs]), strict=True)]
        return [normed(norm, v + added) for v, added in zip(xs, function(xs), strict=True)]

    for block in stack.blocks:
        heads, across = block.attention, block.across

        def myself(inputs, heads=heads):
            made = [affine(heads.inputs, v).split(heads.width) for v in inputs]
            first, second = heads.heads, heads.heads + heads.key_heads
            queries, keys = [one[:first] for one in made], [one[first:second] for one in made]
            values = [one[second:] for one in made]
            return look(heads, queries, keys, values, visible, scoring(stack.position, heads, at))

        def source(inputs, across=across):
            queries = [affine(across.query, v).split(across.width) for v in inputs]
            made = [affine(across.memory, v).split(across.width) for v in memory]
            keys, values = [one[: across.key_heads] for one in made], [one[across.key_heads :] for one in made]
            plain = scoring(None, across, at)
            return look(across, queries, keys, values, lambda _: range(len(memory)), plain)

        xs = sub_layer(myself, block.attention_norm, block.order, xs)
        if across is not None:
            xs = sub_layer(source, block.across_norm, block.order, xs)
        xs = sub_layer(
            lambda inputs, network=block.feed_forward: [fed_forward(network, v) for v in inputs],
            block.feed_forward_norm,
            block.order,
            xs,
        )
    return torch.stack([normed(stack.norm, v) for v in xs])
