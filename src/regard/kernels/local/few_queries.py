"""The centers that few queries predict, without gradients and without a compiler: few operations, in the best order.

An operation of torch's that was not called just before takes longer than what it does to a few queries' numbers, and
numpy's a fraction of that.
"""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.kernels.local import local
from regard.kernels.local.softmax import is_plain_projection
from regard.kernels.memory.arrays import Array

_ROWS = 96
"""Of so many queries a product with the matrix on the left takes less time, as measured."""


def predicts_few(query: Tensor, layer: nn.Module, after: nn.Module) -> bool:
    """Whether `predict_few` takes these queries of a plain call, and these layers' weights as its W and v.

    Args:
        query: h.
        layer: `W h`.
        after: `vᵀ tanh(W h)`.
    """
    if torch.is_grad_enabled() or query.ndim != 3 or query.shape[:2].numel() > _ROWS:
        return False
    if not (is_plain_projection(layer) and is_plain_projection(after)) or query.dtype not in (
        torch.float32,
        torch.float64,
    ):
        return False
    assert isinstance(layer, nn.Linear) and isinstance(after, nn.Linear)
    matrix, vector = layer.weight, after.weight
    alike = all(one.is_cpu and one.dtype is query.dtype for one in (query, matrix, vector))
    fit = query.shape[-1] == matrix.shape[1] and vector.shape == (1, len(matrix)) and len(matrix) > 0
    return alike and fit and local.native_loop(query, query) is None


def predict_few(
    query: Float[Tensor, "batch queries width"],
    matrix: Float[Tensor, "hidden width"],
    vector: Float[Tensor, "1 hidden"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, "batch queries"] | None:
    """`S · sigmoid(vᵀ tanh(W h))`, of a few queries that `predicts_few` lets pass.

    Args:
        query: h.
        matrix: W; as the left factor it is read where it lies, which is faster than its transpose.
        vector: v.
        lengths: S.

    Returns:
        None where a query is not finite.
    """
    hidden = torch.mm(matrix, query.flatten(0, 1).T)
    first: Array = hidden.numpy()[0]  # of a row that is not finite no number of `hidden` is
    if not math.isfinite(sum(first.tolist())):
        return None
    share: Array = torch.mm(vector, hidden.tanh_()).numpy().reshape(query.shape[:2])
    with np.errstate(over="ignore"):  # e^∞ is that of a share of 0
        np.exp(np.negative(share, out=share), out=share)
        share += 1
        return torch.from_numpy(np.divide(lengths.numpy()[:, None], share, out=share))
