"""The fused path: torch's scaled_dot_product_attention, given our masks, biases and head groups."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


def fused(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*key_lead keys dim"],
    value: Float[Tensor, "*key_lead keys value_dim"],
    *,
    keep: Bool[Tensor, "*masked q k"] | None,
    bias: Float[Tensor, "..."] | None,
    causal: bool,
    scale: float,
) -> Float[Tensor, "*lead queries value_dim"]:
    """`softmax(scale · q kᵀ + bias, hidden where not keep) v`; `causal` only for as many queries as keys.

    A query that may see nothing reads 0. The bias may be wider than the query.
    """
    headless = query.ndim == 3
    if headless:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        keep = None if keep is None else keep.unsqueeze(1)
        bias = None if bias is None else bias.unsqueeze(1)
    mask: Tensor | None = keep
    if bias is not None:
        mask = bias if keep is None else torch.where(keep, bias, -torch.inf)
        if causal:
            queries = query.shape[-2]
            seen = torch.ones(queries, queries, dtype=torch.bool, device=query.device).tril()
            mask, causal = torch.where(seen, mask, -torch.inf), False
        mask = _narrow(mask, query)
    context = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    if keep is not None:
        # Kernels differ in what an all-hidden row reads; the promise is 0.
        context = torch.where(keep.any(-1, keepdim=True), context, 0.0)
    return context.squeeze(1) if headless else context


def _narrow(bias: Tensor, query: Tensor) -> Tensor:
    """The bias in the query's type, with what is common to a row's keys taken off, which softmax does not notice.

    bfloat16 would round 1000.4 to 1000; the kernel's own sums are exact enough.
    """
    if query.dtype in (torch.float16, torch.bfloat16) or torch.is_autocast_enabled(query.device.type):
        top = bias.detach().amax(-1, keepdim=True)
        bias = bias - torch.where(torch.isfinite(top), top, 0.0)
    return bias.to(query.dtype)
