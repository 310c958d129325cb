"""attend: score, normalize, refocus, read. The one function under every attention of this library."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attended import Attended
from regard.attention.call.call import (
    Call,
    NormalizerLike,
    RefocusLike,
    ScoreLike,
    as_normalizer,
    as_score,
    checked_dropout,
)
from regard.attention.parts.mask_kinds import MaskLike
from regard.attention.parts.normalize import normalizer as normalizer
from regard.attention.parts.score import score as score
from regard.attention.parts.score_base import Prepared, Score
from regard.attention.run import run
from regard.errors import ConfigError

__all__ = ["Attended", "Attention", "attend"]


def attend(
    query: Float[Tensor, "batch *heads queries query_dim"],
    key: Float[Tensor, "batch *key_heads keys key_dim"] | Prepared,
    value: Float[Tensor, "batch *key_heads keys value_dim"] | None = None,
    *,
    score: ScoreLike = "scaled_dot",
    normalizer: NormalizerLike = "softmax",
    mask: MaskLike | None = None,
    bias: Float[Tensor, "..."] | None = None,
    refocus: RefocusLike | None = None,
    dropout: float = 0.0,
    weights: bool = False,
    statistics: int | None = None,
) -> Attended:
    """Attend: `context = read(refocus(normalize(score(query, key) + bias)), value)`.

    In the notation of Vaswani et al. (2017, eq. 1) with rows: softmax(QKᵀ/√d)V; the literature with columns writes
    V·softmax(KᵀQ/√d), the same numbers transposed.

    Args:
        query: `(batch, queries, query_dim)` or `(batch, heads, queries, query_dim)`.
        key: `(batch, keys, key_dim)` or `(batch, key_heads, keys, key_dim)`, where key_heads divides heads; or what
            `score.prepare(key)` gave, so that a decoder projects its keys once.
        value: as many as keys, any width. None is the pointer: the weights are the answer.
        score: a Score, or the name of one without parameters.
        normalizer: a Normalizer or its name.
        mask: which keys each query may attend to: one of `regard.masks`, a bool tensor (True = may attend; the shapes
            of `masks.keep`) or a function of (b, h, q, k). A fully masked query gets a zero context.
        bias: added to the scores before the mask, broadcastable to them.
        refocus: a callable weights → weights or a list of them, applied left to right after normalising; weight that
            lands on masked-out keys is set to 0.
        dropout: always applied (modules pass 0 in eval); it never shows in the weights.
        weights: make the weights at once instead of on access, for compile, export and vmap.
        statistics: make the statistics of the weights at once, with this many of each query's largest (0: none): where
            no gradient is wanted, one pass of the path "native" makes them and the context.

    Returns:
        Attended: `context` `(batch, [heads,] queries, value_dim)` in the query's dtype, and `weights`, `log_weights`.

    Raises:
        ShapeError: sizes that do not fit together, with each shape.
        MaskError: something that is not a mask given as one; a mask of a wrong shape.
        ConfigError: an unknown part, or the name of a part that has parameters.

    Double backward and forward-mode derivatives: the explicit path has them; the other paths are left by
    themselves inside vmap and jvp. For double backward give `refocus=[lambda weights: weights]`: the paths "blocked"
    and "windowed" of large calls say that they have none, nor has torch's fused kernel.
    """
    call = Call.of(query, key, value, score, normalizer, mask, bias, refocus, dropout)
    return run(call, at_once=weights, top=statistics)


class Attention(nn.Module):
    """An attention as a module: its parts, and `attend` over them.

    Args:
        score: a Score, or the name of one without parameters.
        normalizer: a Normalizer or its name.
        refocus: callables weights → weights that hold for every call; more can be bound at the call.
        dropout: on the weights, in training only.

    Raises:
        ConfigError: an unknown part; the name of a part that has parameters; a bound score; a dropout outside 0 to 1.
    """

    def __init__(
        self,
        score: str | Score = "scaled_dot",
        normalizer: NormalizerLike = "softmax",
        refocus: RefocusLike | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        resolved = as_score(score)
        if not isinstance(resolved, Score):
            raise ConfigError("a bound score holds for one call; give the module the score itself and bind at the call")
        self.score = resolved
        self.normalizer = as_normalizer(normalizer)
        self.refocus = _steps(refocus)
        self.dropout = checked_dropout(dropout)

    def prepare(self, key: Float[Tensor, "*lead keys key_dim"]) -> Prepared:
        """What depends on the keys alone, made once a sequence and passed in the key's place.

        Under a mask these and their values are checked for NaN and inf once, and again after a change that torch
        counts: what is written through `tensor.data`, numpy or another library's view of the same memory isn't noticed.
        """
        return self.score.prepare(key)

    def forward(
        self,
        query: Float[Tensor, "batch *heads queries query_dim"],
        key: Float[Tensor, "batch *key_heads keys key_dim"] | Prepared,
        value: Float[Tensor, "batch *key_heads keys value_dim"] | None = None,
        *,
        mask: MaskLike | None = None,
        bias: Float[Tensor, "..."] | None = None,
        refocus: RefocusLike | None = None,
        weights: bool = False,
        **now: object,
    ) -> Attended:
        """See `attend`; further arguments are bound to the score for this call, e.g. `previous=weights`."""
        return attend(
            query,
            key,
            value,
            score=self.score.bind(**now) if now else self.score,
            normalizer=self.normalizer,
            mask=mask,
            bias=bias,
            refocus=(*self.refocus, *_steps(refocus)),
            dropout=self.dropout if self.training else 0.0,
            weights=weights,
        )


def _steps(refocus: RefocusLike | None) -> tuple:
    return () if refocus is None else (refocus,) if callable(refocus) else tuple(refocus)
