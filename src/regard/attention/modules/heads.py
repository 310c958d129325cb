"""Multi-head attention inside a stack of layers: what all layers share is made once, and keys and values are kept.

`MultiHeadAttention` is for anyone: it takes any inputs, checks them all, and makes masks and positions at each call. A
stack calls its attentions with inputs that it made itself, so these take them ready: queries, keys and values of one
product, and an `AttentionContext` that says for all layers alike which keys each query may attend to.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.attended import Source, transformed
from regard.attention.call.call import NormalizerLike, ScoreLike, as_normalizer, as_score, checked_dropout
from regard.attention.parts import masks
from regard.attention.parts.normalize import is_softmax
from regard.attention.parts.score import ScaledDot
from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_hooked
from regard.kernels.autograd.plain import is_plain_tensor, is_readable
from regard.kernels.dot import dot
from regard.kernels.transformer import self_attention

Rotation = Callable[[Tensor], Tensor]


class Keys(NamedTuple):
    """Keys and values, `(batch, key_heads, keys, width)`: a pytree of tensors, batch first.

    Attributes:
        key: rotated by their positions where positions rotate.
        value: as many.
    """

    key: Float[Tensor, "batch key_heads keys width"]
    value: Float[Tensor, "batch key_heads keys width"]


class AttentionContext:
    """Which keys each query may attend to, for all layers of a stack: mask, bias and rotation of a call.

    It is what attention is given, and no context vector, which is what attention gives (`Attended.context`).

    Args:
        keep: True where the key may be attended to; None if each query attends to all keys, or to those up to itself.
        causal: without `keep`: as many queries as keys, and each attends to those up to itself.
        bias: added to the scores of each head.
        rotation: rotates queries and keys by their positions.
        positions: of queries and keys, for scores that know them.
    """

    def __init__(
        self,
        keep: Bool[Tensor, "#batch 1 #queries keys"] | None = None,
        causal: bool = False,
        bias: Float[Tensor, "#batch heads queries keys"] | None = None,
        rotation: Rotation | None = None,
        positions: tuple[Int[Tensor, "#batch queries"], Int[Tensor, "#batch keys"]] | None = None,
    ) -> None:
        self.keep, self.causal, self.bias, self.rotation, self.positions = keep, causal, bias, rotation, positions
        self._additive_mask: Tensor | None = None
        # Fully masked queries get a zero context; in the kernel they attend to everything, for 0 / 0 has no gradient.
        self.has_keys: Tensor | None = None
        if keep is not None:
            has_keys = keep.any(-1, keepdim=True)
            if not is_readable(has_keys) or not bool(has_keys.all()):
                self.has_keys = has_keys

    def fresh_copy(self) -> "AttentionContext":
        """The same, with nothing summed yet: what is computed again in a backward pass must not find it made."""
        other = copy(self)
        other._additive_mask = None
        return other

    def additive_mask(self, dtype: torch.dtype) -> Tensor | None:
        """Mask and bias as one number for each score, which the kernel adds; None where it needs none."""
        if self._additive_mask is None or self._additive_mask.dtype != dtype:
            self._additive_mask = self._make_additive_mask(dtype)
        return self._additive_mask

    def _make_additive_mask(self, dtype: torch.dtype) -> Tensor | None:
        keep = self.keep
        if keep is None:
            if self.bias is None:
                return None
            if not self.causal:
                return self.bias.to(dtype)
            size = self.bias.shape[-1]
            keep = torch.ones(size, size, dtype=torch.bool, device=self.bias.device).tril()
        if self.has_keys is not None:
            keep = keep | ~self.has_keys
        shown = torch.zeros((), dtype=dtype, device=keep.device) if self.bias is None else self.bias.to(dtype)
        return torch.where(keep, shown, -torch.inf)

    def mask(self) -> masks.Mask | None:
        """The same as a mask of `attend`."""
        if self.keep is not None:
            return masks.keep(self.keep)
        return masks.causal() if self.causal else None


class Heads(nn.Module):
    """What the two roles share: scores, weights and reads of all heads, and one projection back.

    Args:
        dim: width of the vectors between the layers.
        heads: attentions side by side.
        key_heads: keys and values; they divide `heads` (grouped-query attention, Ainslie et al. 2023).
        bias: whether the projections have one.
        score: a Score, or the name of one without parameters.
        normalizer: a Normalizer or its name.
        dropout: on the weights, in training only.

    Raises:
        ConfigError: heads that do not share the width evenly, or key heads that do not divide them.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        key_heads: int | None = None,
        bias: bool = True,
        score: ScoreLike = "scaled_dot",
        normalizer: NormalizerLike = "softmax",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        key_heads = heads if key_heads is None else key_heads
        if heads < 1 or key_heads < 1 or heads % key_heads or dim % heads:
            raise ConfigError(
                f"heads must share dim evenly and key_heads divide heads; got {dim=}, {heads=}, {key_heads=}"
            )
        self.heads, self.key_heads, self.width = heads, key_heads, dim // heads
        self.dropout = checked_dropout(dropout)
        self.score: Any = as_score(score)
        self.normalizer = as_normalizer(normalizer)
        self.output = nn.Linear(dim, dim, bias=bias)

    @property
    def fused(self) -> bool:
        """Whether it is what scaled_dot_product_attention computes, without hooks; the rest goes by `attend`.

        Asked at each call: somebody may put other parts in the place of these.
        """
        parts = self._modules  # to ask a module for a part of it takes longer than all of this
        score = parts.get("score")
        return type(score) is ScaledDot and is_softmax(parts.get("normalizer")) and not is_hooked(score)

    def forward(
        self, query: Float[Tensor, "batch heads queries width"], keys: Keys, attention_context: AttentionContext
    ) -> Attended:
        """Attend and project back: `context` `(batch, queries, dim)`, the weights of each head on access."""
        attended = self._attend(query, keys, attention_context)
        assert attended.context is not None
        return attended.with_context(self.output(attended.context.transpose(1, 2).flatten(2)))

    def attended_of(
        self,
        context: Float[Tensor, "batch queries dim"],
        query: Tensor,
        keys: Callable[[], Keys],
        attention_context: AttentionContext,
    ) -> Attended:
        """What was computed elsewhere, with the weights that `attend` makes of the same queries and keys on access.

        Args:
            context: after the projection back.
            query: `(batch, heads, queries, width)`.
            keys: gives the keys and values.
            attention_context: which keys each query could attend to.
        """
        return Attended(context, source=self._source(lambda: self._by_attend(query, keys(), attention_context)))

    def _attend(self, query: Tensor, keys: Keys, attention_context: AttentionContext) -> Attended:
        dropout = self.dropout if self.training else 0.0
        if dropout or not self.fused or 0 in keys.key.shape or torch.compiler.is_compiling() or transformed():
            return self._by_attend(query, keys, attention_context, dropout, torch.compiler.is_compiling())
        context = self._by_native_loop(query, keys, attention_context)
        if context is None:
            context = self._fused(query, keys, attention_context)
        return Attended(context, source=self._source(lambda: self._by_attend(query, keys, attention_context)))

    def _by_native_loop(self, query: Tensor, keys: Keys, attention_context: AttentionContext) -> Tensor | None:
        """By the native loop, where it takes the call and is faster."""
        sizes = query.shape[0], self.heads, query.shape[2], keys.key.shape[2]
        if not dot.is_worthwhile(sizes, 0.0) or not dot.serves(query, keys.key, keys.value):
            return None
        others = [
            one for one in (keys.key, keys.value, attention_context.bias, attention_context.keep) if one is not None
        ]
        if not all(is_plain_tensor(one) and one.device == query.device for one in others):
            return None
        scale = self.width**-0.5 if self.score.scale is None else self.score.scale
        visible = dot.Visible(
            attention_context.causal and attention_context.keep is None, 0, None, None, attention_context.keep
        )
        return dot.attention(query, *keys, visible=visible, bias=attention_context.bias, scale=scale, dropout=0.0)

    def _fused(self, query: Tensor, keys: Keys, attention_context: AttentionContext) -> Tensor:
        context = F.scaled_dot_product_attention(
            query,
            keys.key,
            keys.value,
            attn_mask=attention_context.additive_mask(query.dtype),
            is_causal=attention_context.causal and attention_context.bias is None,
            scale=self.score.scale,
            enable_gqa=self.heads != self.key_heads,
        )
        return context if attention_context.has_keys is None else torch.where(attention_context.has_keys, context, 0.0)

    def _by_attend(
        self,
        query: Tensor,
        keys: Keys,
        attention_context: AttentionContext,
        dropout: float = 0.0,
        weights: bool = False,
    ) -> Attended:
        return attend(
            query,
            keys.key,
            keys.value,
            score=self._bound(attention_context),
            normalizer=self.normalizer,
            mask=attention_context.mask(),
            bias=attention_context.bias,
            dropout=dropout,
            weights=weights,
        )

    def _source(self, recompute: Callable[[], Attended]) -> Source:
        """On access: what `attend` makes of the same queries and keys."""
        return Source(
            lambda: recompute().weights,
            lambda: recompute().log_weights,
            statistics=lambda top: recompute().statistics(top),
        )

    def _bound(self, attention_context: AttentionContext) -> Any:
        score = self.score
        if getattr(score, "kind", None) != "score":
            return score
        if attention_context.positions is None:
            raise ConfigError("this score knows positions, and none are known here: leave it to self-attention")
        of_query, of_key = attention_context.positions
        return score.bind(query_positions=of_query, key_positions=of_key)

    def extra_repr(self) -> str:
        """Sizes and rate, for `print(module)`."""
        return f"heads={self.heads}, key_heads={self.key_heads}, dropout={self.dropout}"


class SelfHeads(Heads):
    """Self-attention of a sequence: queries, keys and values in one product. See `Heads`."""

    def __init__(self, dim: int, heads: int, *, bias: bool = True, **parts: Any) -> None:
        super().__init__(dim, heads, bias=bias, **parts)
        self.inputs = nn.Linear(dim, (self.heads + 2 * self.key_heads) * self.width, bias=bias)

    def project(
        self, x: Float[Tensor, "batch positions dim"], rotation: Rotation | None
    ) -> tuple[Float[Tensor, "batch heads positions width"], Keys]:
        """Queries, and keys with their values, of the same positions."""
        return self._parts(self.inputs(x), rotation)

    def self_attend(self, x: Float[Tensor, "batch positions dim"], attention_context: AttentionContext) -> Attended:
        """What `project` and a call of the module give, where the positions attend to each other alone."""
        attended: Attended
        if type(self).project is not SelfHeads.project or "project" in vars(self):
            attended = self(*self.project(x, attention_context.rotation), attention_context)
            return attended
        projected = self.inputs(x)
        causal = self._in_one_loop(projected, attention_context)
        if causal is None:
            attended = self(*self._parts(projected, attention_context.rotation), attention_context)
            return attended
        scale = self.width**-0.5 if self.score.scale is None else self.score.scale
        context = self_attention.attention(projected, self.heads, self.key_heads, causal=causal, scale=scale)
        source = self._source(lambda: self._by_attend(*self._parts(projected, None), attention_context))
        return Attended(self.output(context), source=source)

    def _in_one_loop(self, projected: Tensor, attention_context: AttentionContext) -> bool | None:
        """Whether it is causal, if the native loop can read the projection as it lies; else None."""
        if not self.fused or type(self) is not SelfHeads or (self.training and self.dropout):
            return None
        if (
            attention_context.keep is not None
            or attention_context.bias is not None
            or attention_context.rotation is not None
        ):
            return None
        served = self_attention.serves(projected, self.heads, self.key_heads, self.width)
        return attention_context.causal if served and not is_hooked(self, recording=True) else None

    def _parts(self, projected: Tensor, rotation: Rotation | None) -> tuple[Tensor, Keys]:
        projected = projected.unflatten(-1, (-1, self.width)).transpose(1, 2)
        if rotation is None:
            query, key, value = projected.split((self.heads, self.key_heads, self.key_heads), dim=1)
            return query, Keys(key, value)
        unrotated, value = projected.split((self.heads + self.key_heads, self.key_heads), dim=1)
        query, key = rotation(unrotated).split((self.heads, self.key_heads), dim=1)
        return query, Keys(key, value)


class CrossHeads(Heads):
    """Cross-attention to another sequence, whose keys and values are projected once for all steps. See `Heads`."""

    def __init__(self, dim: int, heads: int, *, bias: bool = True, **parts: Any) -> None:
        super().__init__(dim, heads, bias=bias, **parts)
        self.query = nn.Linear(dim, dim, bias=bias)
        self.memory = nn.Linear(dim, 2 * self.key_heads * self.width, bias=bias)

    def project_query(self, x: Float[Tensor, "batch positions dim"]) -> Float[Tensor, "batch heads positions width"]:
        """The queries."""
        query: Tensor = self.query(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
        return query

    def project(self, states: Float[Tensor, "batch keys dim"]) -> Keys:
        """Keys and values of the other sequence."""
        projected = self.memory(states).unflatten(-1, (-1, self.width)).transpose(1, 2)
        return Keys(*projected.split((self.key_heads, self.key_heads), dim=1))
