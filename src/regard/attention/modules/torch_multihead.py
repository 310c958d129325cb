"""To and from `torch.nn.MultiheadAttention`: the same weights, the same numbers.

What `MultiHeadAttention.from_torch` and `to_torch` call. Nothing here imports that class: it is known by what it has.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.attention.parts.normalize import Softmax
from regard.attention.parts.score import ScaledDot
from regard.errors import ConfigError, quoted


class TorchArguments(NamedTuple):
    """What a `MultiHeadAttention` is made from to be the same as a module of torch's.

    Attributes:
        dim: width of queries and of the context.
        heads: number of attentions.
        projections: copies of W_q, W_k, W_v and W_o, with their biases.
        dropout: on the weights.
    """

    dim: int
    heads: int
    projections: tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]
    dropout: float


@runtime_checkable
class MultiHead(Protocol):
    """What `to_torch` reads of a `MultiHeadAttention`."""

    dim: int
    heads: int
    key_heads: int
    dropout: float
    training: bool
    query: nn.Module
    key: nn.Module
    value: nn.Module
    output: nn.Module
    score: Any
    normalizer: Any
    position: Any


def arguments_of(module: nn.MultiheadAttention) -> TorchArguments:
    """What makes the same attention here; batch first, whatever the given one's layout was.

    Args:
        module: with any kdim, vdim, bias and dropout. Its weights are copied.

    Raises:
        ConfigError: for another module, and for add_bias_kv and add_zero_attn, which add a key that is not in the
            input.
    """
    if not isinstance(module, nn.MultiheadAttention):
        raise ConfigError(f"from_torch takes a torch.nn.MultiheadAttention; it was {quoted(module)}")
    for option, given in (("add_bias_kv", module.bias_k is not None), ("add_zero_attn", module.add_zero_attn)):
        if given:
            raise ConfigError(
                f"{option}=True has no counterpart here: it adds a key that is not in the input; append it to the input"
            )
    dim = module.embed_dim
    weights: tuple[Tensor, ...]
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    query, key, value = (_copied(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    projections = query, key, value, _copied(module.out_proj.weight, module.out_proj.bias)
    return TorchArguments(dim, module.num_heads, projections, module.dropout)


def to_torch(attention: MultiHead) -> nn.MultiheadAttention:
    """The same attention as a `torch.nn.MultiheadAttention(batch_first=True)`. Its weights are copied.

    Raises:
        ConfigError: for parts that torch's module does not have, naming each.
    """
    lacking = _lacking(attention)
    if lacking:
        raise ConfigError(f"torch.nn.MultiheadAttention has no counterpart for: {'; '.join(lacking)}")
    parts = (attention.query, attention.key, attention.value, attention.output)
    linears = [linear for linear in parts if isinstance(linear, nn.Linear)]
    has_bias = any(linear.bias is not None for linear in linears)
    like = linears[0].weight
    made = nn.MultiheadAttention(
        attention.dim,
        attention.heads,
        dropout=attention.dropout,
        bias=has_bias,
        kdim=linears[1].in_features,
        vdim=linears[2].in_features,
        batch_first=True,
        device=like.device,
        dtype=like.dtype,
    )
    with torch.no_grad():
        weights = [linear.weight for linear in linears]
        if made.in_proj_weight is not None:
            made.in_proj_weight.copy_(torch.cat(weights[:3]))
        else:
            made.q_proj_weight.copy_(weights[0])
            made.k_proj_weight.copy_(weights[1])
            made.v_proj_weight.copy_(weights[2])
        made.out_proj.weight.copy_(weights[3])
        if has_bias:
            biases = [_bias(linear) for linear in linears]
            made.in_proj_bias.copy_(torch.cat(biases[:3]))
            made.out_proj.bias.copy_(biases[3])
    return made.train(attention.training)


def _lacking(attention: MultiHead) -> list[str]:
    dim, reasons = attention.dim, []
    if attention.key_heads != attention.heads:
        reasons.append(f"key_heads={attention.key_heads} of heads={attention.heads}")
    if type(attention.score) is not ScaledDot or attention.score.scale is not None:
        reasons.append(f"the score {attention.score}, only scaled_dot")
    if type(attention.normalizer) is not Softmax or attention.normalizer.temperature != 1.0:
        reasons.append(f"the normalizer {attention.normalizer}, only softmax")
    if attention.position is not None:
        reasons.append(f"the position part {attention.position}")
    for name in ("query", "key", "value", "output"):
        linear = getattr(attention, name)
        if not isinstance(linear, nn.Linear):
            reasons.append(f"the {name} projection {linear}, only Linear")
        elif linear.out_features != dim or (name in ("query", "output") and linear.in_features != dim):
            reasons.append(
                f"the {name} projection's widths {linear.in_features} to {linear.out_features}, dim is {dim}"
            )
    return reasons


def _copied(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    outputs, inputs = weight.shape
    linear = nn.Linear(inputs, outputs, bias=bias is not None, device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def _bias(linear: nn.Linear) -> Tensor:
    return linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias
