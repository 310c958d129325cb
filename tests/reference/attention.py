"""Attention as the formulas are printed: one pair at a time, no tensors of pairs, no masks as numbers.

Slow and obviously right. Differentiable, so that gradients are compared as well. A hidden key is not in the list of
keys at all, so it can neither be seen nor leave a trace.
"""

import math

import torch
from entmax import entmax15, sparsemax

TINY = torch.finfo(torch.float64).tiny


# --- scores of one query vector and one key vector ------------------------------------------------------------------


def score_of_pair(name, module, query, key, position):
    if name == "dot":
        return (query * key).sum()
    if name == "scaled_dot":
        return (query * key).sum() / math.sqrt(len(query))
    if name == "general":
        return sum(query[i] * (module.weight[i] * key).sum() for i in range(len(query)))
    if name == "general_low_rank":
        return ((module.query_weight @ query) * (module.key_weight @ key)).sum()
    if name in ("additive", "location_aware"):
        return (module.vector * torch.tanh(module.query_weight @ query + module.key_weight @ key)).sum()
    if name == "cosine":
        return (query * key).sum() / (query.norm() * key.norm())
    if name == "location":
        return (module.weight[position] * query).sum()
    if name == "feed_forward":
        return (module.weight[position] * query).sum() + module.bias[position]
    if name == "linear":
        return ((torch.nn.functional.elu(query) + 1) * (torch.nn.functional.elu(key) + 1)).sum()
    raise KeyError(name)


# --- weights of the visible scores of one query ---------------------------------------------------------------------


def weights_of(name, scores, noise):
    """`scores` (visible,), `noise` (visible,) of Gumbel's law for the normalizers that draw."""
    if len(scores) == 0:
        return scores
    if name == "softmax":
        exponentials = torch.exp(scores - scores.max())
        return exponentials / exponentials.sum()
    if name == "sparsemax":
        return sparsemax(scores, dim=-1)
    if name == "entmax15":
        return entmax15(scores, dim=-1)
    if name == "sigmoid":
        return 1 / (1 + torch.exp(-scores))
    if name == "sum":
        return scores / scores.sum()
    if name == "identity":
        return scores
    one_hot = torch.eye(len(scores), dtype=scores.dtype)
    if name == "hard":
        return one_hot[scores.argmax()]
    if name == "sample":
        return one_hot[(scores + noise).argmax()]
    if name == "gumbel":
        soft = torch.softmax(scores + noise, -1)
        return one_hot[soft.argmax()] + soft - soft.detach()
    raise KeyError(name)


# --- the whole ------------------------------------------------------------------------------------------------------


def plain_attend(
    query,
    key,
    value,
    *,
    score,
    module=None,
    normalizer="softmax",
    sees=None,
    bias=None,
    uniform=None,
    temperature=1.0,
):
    """Context and weights, `(batch, heads, queries, …)` tensors in and out; key heads divide query heads.

    Args:
        sees: `sees(b, h, q, k) -> bool`, None for everything.
        uniform: the uniform numbers that a drawing normalizer takes, shaped as the scores.
        temperature: scores, their bias included, are divided by it; for normalizers that do not draw.
    """
    batch, heads, queries, _ = query.shape
    key_heads, keys = key.shape[1], key.shape[2]
    share = heads // key_heads
    contexts, all_weights = [], []
    for b in range(batch):
        for h in range(heads):
            for q in range(queries):
                visible = [k for k in range(keys) if sees is None or sees(b, h, q, k)]
                row = [
                    score_of_pair(score, module, query[b, h, q], key[b, h // share, k], k)
                    + (0 if bias is None else bias[b, h, q, k])
                    for k in visible
                ]
                scores = torch.stack(row) / temperature if row else query.new_zeros(0)
                noise = None
                if uniform is not None:
                    noise = -torch.log(-torch.log(uniform[b, h, q, visible].clamp_min(TINY)))
                weights = weights_of(normalizer, scores, noise)
                context = value.new_zeros(value.shape[-1])
                full = [query.new_zeros(())] * keys
                for weight, k in zip(weights, visible, strict=True):
                    context = context + weight * value[b, h // share, k]
                    full[k] = weight
                contexts.append(context)
                all_weights.append(torch.stack(full) if full else query.new_zeros(0))
    context = torch.stack(contexts).reshape(batch, heads, queries, value.shape[-1])
    return context, torch.stack(all_weights).reshape(batch, heads, queries, keys)
