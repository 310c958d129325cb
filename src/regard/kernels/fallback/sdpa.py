"""The fused path: torch's scaled_dot_product_attention, given our masks, biases and head groups."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

# Without instructions for it, a processor is faster in float32, and exacter.
# The questions are torch's own and not promised: where one is gone, the answer is no, and only speed is lost.
_COUNTS_BFLOAT16: bool = any(
    getattr(torch.cpu, question, bool)() for question in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
)


def fused(
    query: Float[Tensor, "*lead queries dim"],
    key: Float[Tensor, "*key_lead keys dim"],
    value: Float[Tensor, "*key_lead keys value_dim"],
    *,
    keep: Bool[Tensor, "*masked q k"] | None,
    bias: Float[Tensor, "..."] | None,
    causal: bool,
    scale: float,
    none_fully_masked: bool = False,
) -> Float[Tensor, "*lead queries value_dim"]:
    """`softmax(scale · q kᵀ + bias, masked out where not keep) v`; `causal` only for as many queries as keys.

    A fully masked query gets a zero context; with `none_fully_masked` it is known that there is none. The bias may be
    of a wider type than the query.
    """
    headless, width, kind = query.ndim == 3, value.shape[-1], query.dtype
    query, key, value = _of_one_width(*prepared(query, key, value))
    if headless:
        keep = None if keep is None else keep.unsqueeze(1)
        bias = None if bias is None else bias.unsqueeze(1)
    mask: Tensor | None = keep
    if bias is not None:
        mask = bias if keep is None else torch.where(keep, bias, -torch.inf)
        if causal:
            queries = query.shape[-2]
            lower = torch.ones(queries, queries, dtype=torch.bool, device=query.device).tril()
            mask, causal = torch.where(lower, mask, -torch.inf), False
        mask = _narrow(mask, query)
    context = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        scale=scale,
        enable_gqa=bool(query.shape[1] != key.shape[1]),  # traced sizes compare to a tensor
    )
    if context.shape[-1] != width:
        context = context[..., :width]
    context = context if context.dtype is kind else context.to(kind)
    if keep is not None and not none_fully_masked:
        # Kernels differ in the context of a fully masked row; the promise is 0.
        context = torch.where(keep.any(-1, keepdim=True), context, 0.0)
    return context.squeeze(1) if headless else context


def prepared(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three as a processor's fused kernel takes them: with heads, a vector's numbers side by side, in a fast type.

    Anything else would send scaled_dot_product_attention to its slow way, which forms all weights.
    """
    each = (query, key, value)
    if query.ndim == 3:
        each = (query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1))
    if query.is_cpu and not torch.is_autocast_enabled("cpu"):
        if query.dtype is torch.float16 or (query.dtype is torch.bfloat16 and not _COUNTS_BFLOAT16):
            each = (each[0].float(), each[1].float(), each[2].float())
        if each[0].stride(-1) != 1 or each[1].stride(-1) != 1 or each[2].stride(-1) != 1:
            each = (_side_by_side(each[0]), _side_by_side(each[1]), _side_by_side(each[2]))
    return each


def ungrouped(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values once for each head of the queries, for a path that knows no grouped heads."""
    share = query.shape[1] // key.shape[1]
    if share == 1:
        return query, key, value
    return query, key.repeat_interleave(share, dim=1), value.repeat_interleave(share, dim=1)


def _side_by_side(rows: Tensor) -> Tensor:
    return rows if rows.stride(-1) == 1 or rows.shape[-1] == 1 else rows.contiguous()


def _of_one_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values as wide as keys, with zeros, where a processor's fused kernel needs it and it pays."""
    if torch.compiler.is_compiling() or not query.is_cpu or query.shape[-1] == value.shape[-1]:
        return query, key, value
    narrow, wide = sorted((query.shape[-1], value.shape[-1]))
    if query.shape[-2] * key.shape[-2] < 2**14 or wide > 4 * narrow:
        return query, key, value
    if value.shape[-1] == narrow:
        return query, key, F.pad(value, (0, wide - narrow))
    return F.pad(query, (0, wide - narrow)), F.pad(key, (0, wide - narrow)), value


def _narrow(bias: Tensor, query: Tensor) -> Tensor:
    """The bias in the query's type, less what all keys of a row have in common, which softmax does not change by.

    bfloat16 would round 1000.4 to 1000; the kernel's own sums are exact enough.
    """
    if query.dtype in (torch.float16, torch.bfloat16) or torch.is_autocast_enabled(query.device.type):
        top = bias.detach().amax(-1, keepdim=True)
        bias = bias - torch.where(torch.isfinite(top), top, 0.0)
    return bias.to(query.dtype)
