"""Whether what the loop of dot products would read is finite and moderate, without the products."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.dot import dot


def reads_safely(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*key_lead keys dim"],
    value: Float[Tensor, "*key_lead keys value_dim"],
    *,
    visible: dot.Visible,
    scale: float,
    directions: tuple[bool, bool],
) -> bool:
    """Whether `dot.attention` would find that what it reads is safe (`dot.SafetyCheck`); float32 and float64 only.

    Args:
        query: query vectors, as are the others as `dot.attention` takes them.
        key: key vectors.
        value: value vectors.
        visible: which keys each query may attend to. Its `keep` decides over nothing that is read.
        scale: of the products.
        directions: whether queries, and keys, are divided by their lengths first.
    """
    check, nothing = dot.SafetyCheck(), torch.zeros((1,) * query.ndim, dtype=torch.bool, device="cpu")
    with torch.no_grad():  # the loop runs and checks, but no pair is left that it would multiply
        dot.attention(
            query,
            key,
            value,
            visible=visible._replace(keep=nothing),
            bias=None,
            scale=scale,
            dropout=0.0,
            directions=directions,
            check=check,
        )
    return check.safe
