"""Multi-head attention: several attentions side by side, each over its own projections, and one projection back.

Vaswani et al. 2017, section 3.2.2; fewer key heads than heads is grouped-query attention (Ainslie 2023), a single one
multi-query attention (Shazeer 2019). Any score, a score a head, any normalizer and any position part may be given.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.call.call import NormalizerLike, ScoreLike, as_normalizer, as_score, checked_dropout
from regard.attention.modules import torch_multihead
from regard.attention.parts.mask_kinds import MaskLike
from regard.attention.parts.projection import needs_guard, project
from regard.attention.parts.score import PerHead
from regard.attention.parts.score_base import Bound, Prepared, Score
from regard.errors import ConfigError, ShapeError, quoted


class Projections(NamedTuple):
    """The four projections: `(batch, positions, width)` to `(batch, positions, heads · head width)` and back.

    Attributes:
        query: to `heads` times the width of the score's query.
        key: to `key_heads` times the width of the score's key.
        value: to `key_heads` times any width.
        output: from `heads` times the value's width; W_o.
    """

    query: nn.Module
    key: nn.Module
    value: nn.Module
    output: nn.Module


class Projected(NamedTuple):
    """Keys and values projected once, for many calls: a pytree of tensors, batch first.

    Attributes:
        prepared: the keys, `(batch, key_heads, keys, …)`, turned by their positions where the position part turns.
        value: `(batch, key_heads, keys, head_width)`.
    """

    prepared: Prepared
    value: Float[Tensor, "batch key_heads keys value_dim"]

    def append(self, later: "Projected") -> "Projected":
        """These keys followed by later ones, as new tensors: a cache that grows by the step."""
        key, projected, value = (
            torch.cat((old, new), dim=2)
            for old, new in zip((*self.prepared, self.value), (*later.prepared, later.value), strict=True)
        )
        return Projected(Prepared(key, projected), value)


class MultiHeadAttention(nn.Module):
    """head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), concatenated and times W^O.

    Shapes: query `(batch, queries, dim)`, key `(batch, keys, key_dim)`, value `(batch, keys, value_dim)`; the context
    is `(batch, queries, dim)` after W_o, the weights are `(batch, heads, queries, keys)`.

    Args:
        dim: width of the query and of the context.
        heads: number of attentions.
        key_heads: number of key and value heads; it divides `heads`. None is one for each head.
        key_dim: width of the key; None is `dim`.
        value_dim: width of the value; None is `key_dim`.
        head_dim: width of a head; None is dim / heads.
        bias: whether the projections that are made here have one.
        projections: given instead of made; then `key_dim`, `value_dim`, `head_dim` and `bias` are theirs.
        score: of the heads: a Score, the name of one without parameters, or a sequence with one a head.
        normalizer: a Normalizer or its name.
        position: a part of kind "rotate" or "bias"; one of kind "score" (shaw) is given as the score.
        dropout: on the weights, in training only.

    Raises:
        ConfigError: sizes that do not divide, projections given beside sizes that are theirs, not one score a head, or
            a position part of another kind.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        key_heads: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        projections: Projections | None = None,
        score: ScoreLike | Sequence[ScoreLike] = "scaled_dot",
        normalizer: NormalizerLike = "softmax",
        position: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        key_heads = heads if key_heads is None else key_heads
        if heads < 1 or key_heads < 1 or heads % key_heads:
            raise ConfigError(f"key_heads must divide heads, 1 at least; got heads={heads}, key_heads={key_heads}")
        if projections is None:
            if head_dim is None and dim % heads:
                raise ConfigError(f"dim={dim} is not divisible by heads={heads}; give head_dim, or change one of them")
            key_dim = dim if key_dim is None else key_dim
            value_dim = key_dim if value_dim is None else value_dim
            head_dim = dim // heads if head_dim is None else head_dim
            projections = Projections(
                _linear(dim, heads * head_dim, bias),
                _linear(key_dim, key_heads * head_dim, bias),
                _linear(value_dim, key_heads * head_dim, bias),
                _linear(heads * head_dim, dim, bias),
            )
        elif (key_dim, value_dim, head_dim, bias) != (None, None, None, True):
            raise ConfigError(
                "projections are given, so key_dim, value_dim, head_dim and bias are theirs: leave them out"
            )
        kind = getattr(position, "kind", None)
        if position is not None and kind not in ("rotate", "bias"):
            if kind is None:
                advice = "make it with regard.position(name, …)"
            else:
                advice = "give it as score=" if kind == "score" else "add it to the input before the attention"
            raise ConfigError(
                f"position= takes a part of kind rotate or bias, got {quoted(kind or position)}; {advice}"
            )
        self.dim, self.heads, self.key_heads, self.dropout = dim, heads, key_heads, checked_dropout(dropout)
        self.query, self.key, self.value, self.output = projections
        self.score = _score(score, heads)
        self.normalizer = as_normalizer(normalizer)
        self.position: Any = position

    def forward(
        self,
        query: Float[Tensor, "batch queries dim"],
        key: Float[Tensor, "batch keys key_dim"] | Projected | None = None,
        value: Float[Tensor, "batch keys value_dim"] | None = None,
        *,
        mask: MaskLike | None = None,
        bias: Float[Tensor, "..."] | None = None,
        query_positions: Int[Tensor, "#batch queries"] | None = None,
        key_positions: Int[Tensor, "#batch keys"] | None = None,
        weights: bool = False,
    ) -> Attended:
        """Attend with every head.

        Args:
            query: query vectors.
            key: key vectors; None is self-attention, and what `project` returned saves projecting again.
            value: value vectors; None reads the key's own sequence.
            mask: which keys each query may attend to, see `attend`; `(batch, queries, keys)` holds for all heads.
            bias: added to the scores.
            query_positions: needed where the position part or the score knows positions.
            key_positions: likewise; None in self-attention takes those of the queries.
            weights: make the weights at once, for compile and export.

        Returns:
            Attended with the context after W_o and the weights of each head.

        Raises:
            ConfigError: positions that are needed and missing.
            ShapeError: sizes that do not fit together, or positions that are not one for each query or key.
        """
        if isinstance(key, Projected) and value is not None:
            raise ConfigError(
                "the key was projected with its value already; leave value= out, or give both unprojected"
            )
        if key is None:
            key_positions = query_positions if key_positions is None else key_positions
        guarded = False
        if mask is not None and isinstance(key, Projected):
            guarded = needs_guard([query], (*key.prepared, key.value))
        elif mask is not None:
            guarded = needs_guard(x for x in (query, key, value) if isinstance(x, Tensor))
        if not isinstance(key, Projected):
            key = self._project(query if key is None else key, value, key_positions, guarded)
        split_query = self._split(project(self.query, query, guarded), self.heads)
        attended = attend(
            self._rotated(split_query, query_positions),
            key.prepared,
            key.value,
            score=self._bound(split_query, query_positions, key.value, key_positions),
            normalizer=self.normalizer,
            mask=mask,
            bias=self._bias(bias, split_query, query_positions, key.value, key_positions),
            dropout=self.dropout if self.training else 0.0,
            weights=weights,
        )
        assert attended.context is not None
        context = attended.context.transpose(1, 2).flatten(2)  # (batch, queries, heads · head width)
        return attended.with_context(project(self.output, context, guarded))

    def project(
        self,
        key: Float[Tensor, "batch keys key_dim"],
        value: Float[Tensor, "batch keys value_dim"] | None = None,
        *,
        key_positions: Int[Tensor, "#batch keys"] | None = None,
    ) -> Projected:
        """Keys and values ready for many calls of `forward`, such as the steps of a decoder.

        Args:
            key: `(batch, keys, key_dim)`.
            value: `(batch, keys, value_dim)`; None reads the keys' own sequence.
            key_positions: needed where the position part turns the keys.
        """
        return self._project(key, value, key_positions, needs_guard([key] if value is None else [key, value]))

    def _project(self, key: Tensor, value: Tensor | None, positions: Tensor | None, guarded: bool) -> Projected:
        value = key if value is None else value
        keys = self._rotated(self._split(project(self.key, key, guarded), self.key_heads), positions)
        values = self._split(project(self.value, value, guarded), self.key_heads)
        return Projected(self.score.prepare(keys), values)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(batch, positions, heads · width) -> (batch, heads, positions, width)."""
        shape = x.shape
        if len(shape) != 3:
            raise ShapeError(f"heads are made of (batch, positions, width); a projection gave {tuple(shape)}")
        if shape[2] % heads:
            raise ShapeError(f"a projection gave {tuple(shape)}, whose width {heads} heads cannot share evenly")
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def _rotated(self, x: Tensor, positions: Tensor | None) -> Tensor:
        if self.position is None or self.position.kind != "rotate":
            return x
        rotated: Tensor = self.position.rotate_one(x, _needed(positions, x))
        return rotated

    def _bias(
        self, bias: Tensor | None, split_query: Tensor, at: Tensor | None, value: Tensor, key_at: Tensor | None
    ) -> Tensor | None:
        if self.position is None or self.position.kind != "bias":
            return bias
        by_position: Tensor = self.position.bias(_needed(at, split_query), _needed(key_at, value))
        if bias is None:
            return by_position
        return by_position + (bias.unsqueeze(1) if bias.ndim == 3 else bias)

    def _bound(self, split_query: Tensor, at: Tensor | None, value: Tensor, key_at: Tensor | None) -> Any:
        score = self.score
        if getattr(score, "kind", None) != "score":
            return score
        return score.bind(query_positions=_needed(at, split_query), key_positions=_needed(key_at, value))

    @staticmethod
    def from_torch(module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same attention as torch's module; batch first, whatever that one's layout is.

        Args:
            module: with any kdim, vdim, bias and dropout. Its weights are copied.

        Raises:
            ConfigError: for another module, and for add_bias_kv and add_zero_attn, which add a key that is not in the
                input.
        """
        dim, heads, projections, dropout = torch_multihead.arguments_of(module)
        made = MultiHeadAttention(dim, heads, projections=Projections(*projections), dropout=dropout)
        return made.train(module.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """The same attention as a `torch.nn.MultiheadAttention(batch_first=True)`. Its weights are copied.

        Raises:
            ConfigError: for parts that torch's module does not have, naming each.
        """
        return torch_multihead.to_torch(self)

    def extra_repr(self) -> str:
        """Sizes and rate, for `print(module)`."""
        return f"dim={self.dim}, heads={self.heads}, key_heads={self.key_heads}, dropout={self.dropout}"


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    linear = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def _score(given: ScoreLike | Sequence[ScoreLike], heads: int) -> Any:
    if isinstance(given, str | Score | Bound):
        return as_score(given)
    each: list[Any] = [as_score(one) for one in given]
    if len(each) != heads:
        raise ConfigError(f"{len(each)} scores were given for {heads} heads: give one for all, or one a head")
    if any(isinstance(one, Bound) for one in each):
        raise ConfigError("a bound score holds for one call; give the module the scores themselves")
    return PerHead(each)


def _needed(positions: Tensor | None, x: Tensor) -> Tensor:
    """The positions of x, (batch, heads, positions, width); of another shape they might broadcast along the heads."""
    if positions is None:
        raise ConfigError(
            "this attention knows positions: pass query_positions and key_positions, whole numbers (batch, positions);"
            " regard.attention.parts.position.positions(keep) counts the real tokens"
        )
    given, (batch, _, count, _) = positions.shape, x.shape
    if len(given) != 2 or given[0] not in (1, batch) or given[1] != count:
        raise ShapeError(
            f"positions must be ({batch}, {count}), (batch, positions), or serve all items as (1, {count}); "
            f"got {tuple(given)}"
        )
    return positions
