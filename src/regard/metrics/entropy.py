"""How widely attention spreads: the entropy of each row of weights."""

import torch
from jaxtyping import Float
from torch import Tensor


def row_entropy(weights: Float[Tensor, "*lead queries keys"]) -> Float[Tensor, "*lead queries"]:
    """`H = −Σ_j p_j log p_j` of each query's weights, in nats; NaN for a fully masked query.

    0 means that one key has all the weight, log(keys) that all have the same. A row that doesn't sum to 1, as under a
    Gaussian window, is divided by its sum first.

    Args:
        weights: from 0 up; padding has 0 and changes nothing.
    """
    whole = weights.double()
    total = whole.sum(-1, keepdim=True)
    return torch.where(total.squeeze(-1) > 0, torch.special.entr(whole / total).sum(-1), torch.nan)


def mean_row_entropy(tables: list[Float[Tensor, "_ _"]]) -> float:
    """The mean over all rows of all tables, in nats; a fully masked row doesn't count. NaN if there is none.

    Args:
        tables: weights of each sentence, `(target tokens, source tokens)`.
    """
    rows = torch.cat([row_entropy(table) for table in tables]) if tables else torch.empty(0)
    return float(rows.nanmean())
