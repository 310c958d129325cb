"""Multi-head attention inside a stack of layers: what all layers share is made once, and keys and values are kept.

`MultiHeadAttention` is for anyone: it takes any inputs, checks them all, and makes masks and positions at each call. A
stack calls its attentions with inputs that it made itself, so these take them ready: queries, keys and values of one
product, and an `AttentionContext` that says for all layers alike which keys each query may attend to.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attended import Attended, Source
from regard.attention.call.call import Call, NormalizerLike, ScoreLike, as_normalizer, as_score, checked_dropout
from regard.attention.parts import masks
from regard.attention.parts.normalize import is_softmax
from regard.attention.parts.score import ScaledDot
from regard.attention.run import run
from regard.errors import ConfigError
from regard.kernels.autograd.hooks import is_hooked

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
        self.mask: masks.Mask | None = masks.causal() if causal else None
        if keep is not None:
            self.mask = masks.keep(keep)


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
    def is_plain(self) -> bool:
        """Whether it is what scaled_dot_product_attention computes, without hooks.

        Asked at each step: somebody may put other parts in the place of these.
        """
        parts = self._modules  # to ask a module for a part of it takes longer than all of this
        score = parts.get("score")
        return type(score) is ScaledDot and is_softmax(parts.get("normalizer")) and not is_hooked(score)

    def forward(
        self,
        query: Float[Tensor, "batch heads queries width"],
        keys: Keys,
        attention_context: AttentionContext,
        projected: Float[Tensor, "batch positions together"] | None = None,
    ) -> Attended:
        """Attend and project back.

        Args:
            query: of all heads.
            keys: what is attended to.
            attention_context: which keys each query may attend to.
            projected: what queries, keys and values are side by side parts of, if they are.

        Returns:
            `context` `(batch, queries, dim)`, and the weights of each head on access.
        """
        call = self._call(query, keys, attention_context, self.dropout if self.training else 0.0)
        # A graph cannot make weights on access.
        attended = run(call._replace(projected=projected), at_once=call.traced)
        assert attended.context is not None
        return attended.with_context(self.output(attended.context.transpose(1, 2).flatten(2)))

    def attended_of(
        self,
        context: Float[Tensor, "batch queries dim"],
        query: Tensor,
        keys: Callable[[], Keys],
        attention_context: AttentionContext,
    ) -> Attended:
        """What was computed elsewhere, with the weights that a call of the same queries and keys makes, on access.

        Args:
            context: after the projection back.
            query: `(batch, heads, queries, width)`.
            keys: gives the keys and values.
            attention_context: which keys each query could attend to.
        """

        def again() -> Attended:
            return run(self._call(query, keys(), attention_context, 0.0))

        source = Source(
            lambda: again().weights, lambda: again().log_weights, statistics=lambda top: again().statistics(top)
        )
        return Attended(context, source=source)

    def _call(self, query: Tensor, keys: Keys, attention_context: AttentionContext, dropout: float) -> Call:
        call = Call.of(
            query,
            keys.key,
            keys.value,
            self._bound(attention_context),
            self.normalizer,
            attention_context.mask,
            attention_context.bias,
            None,
            dropout,
        )
        return call._replace(own=True)

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
        if type(self) is not SelfHeads:  # its queries and keys may be others than those of one product
            attended = self(*self.project(x, attention_context.rotation), attention_context)
            return attended
        projected = self.inputs(x)
        together = projected if attention_context.rotation is None else None
        attended = self(*self._parts(projected, attention_context.rotation), attention_context, together)
        return attended

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
