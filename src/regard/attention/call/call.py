"""One call of attend: its parts resolved and checked, and what every path asks of it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.attended import is_mapped
from regard.attention.call import guard
from regard.attention.call.checks import are_plain_tensors, check_prepared, checked_bias, checked_dropout, checked_sizes
from regard.attention.call.mask_summary import NO_MASK, MaskSummary, summarize
from regard.attention.parts.mask_kinds import Mask, MaskLike, Sizes, as_mask
from regard.attention.parts.normalize import Normalizer, Softmax, normalizers
from regard.attention.parts.score import Cosine, Dot, ScaledDot
from regard.attention.parts.score_base import Bound, DotProduct, Prepared, Score, scores
from regard.errors import ConfigError, MaskError, quoted
from regard.kernels.autograd.hooks import is_hooked
from regard.kernels.autograd.plain import is_plain, is_plain_tensor

ScoreLike = str | Score | Bound
NormalizerLike = str | Normalizer
RefocusLike = Sequence[Callable[[Tensor], Tensor]] | Callable[[Tensor], Tensor]

# Parts that `attend` was given by name: made once, and nobody else holds them. A module makes its own.
_parts_by_name: dict[tuple[str, str], Any] = {}


def as_score(given: ScoreLike) -> Score | Bound:
    """A score made already, or by its name (if it has no parameters) a new one."""
    return given if isinstance(given, Score | Bound) else _new(scores, given)


def as_normalizer(given: NormalizerLike) -> Normalizer:
    """A normalizer made already, or by its name a new one."""
    made: Normalizer = given if isinstance(given, Normalizer) else _new(normalizers, given)
    return made


def _new(registry: Any, name: str) -> Any:
    kind = registry.kind
    if not isinstance(name, str):
        raise ConfigError(f"{kind}= takes what regard.{kind}(…) makes, or a name; it was {quoted(name)}")
    try:
        return registry.make(name)
    except ConfigError as error:
        if name not in registry:
            raise
        raise ConfigError(
            f"the {kind} {name!r} has sizes or parameters: make it once with regard.{kind}({name!r}, …) and pass that "
            "instead of its name"
        ) from error


def _cached(registry: Any, kinds: Any, given: Any) -> Any:
    if not isinstance(given, str):
        return given if isinstance(given, kinds) else _new(registry, given)
    made = _parts_by_name.get((registry.kind, given))
    if made is None:
        made = _parts_by_name[registry.kind, given] = _new(registry, given)
    return made


def name_of(part: Any) -> str:
    """The name of a score or a normalizer; of one of the caller's own, that of its class."""
    if isinstance(part, Bound):
        part = part.score
    registry = scores if isinstance(part, Score) else normalizers
    for name in registry:
        if registry.maker(name) is type(part):
            return name
    return type(part).__name__


class Call(NamedTuple):
    """A checked call, and what several paths ask of it.

    Attributes:
        query: `(batch, [heads,] queries, query_dim)`.
        key: `(batch, [key_heads,] keys, key_dim)`.
        prepared: what the score made of the keys, if the caller has it already.
        value: `(batch, [key_heads,] keys, value_dim)`, or None for a pointer.
        score: compares queries with keys.
        normalizer: makes weights of scores.
        mask: which keys each query may attend to.
        bias: added to the scores.
        refocus: steps that change the weights after they are normalised.
        dropout: the rate.
        sizes: of the batch, the heads, the queries and the keys.
        summary: what is known about the mask.
        is_dot: scores are the products of what `dot_form` gives: a subclass may make others of them.
        is_softmax: the normalizer is softmax with a number as its temperature.
        traced: torch.compile traces the call.
        mapped: it is inside vmap, jvp or forward-mode differentiation.
        hooked: the score or the normalizer has hooks, so that they have to be called.
        safe: whether all content is finite and moderate, so that what is masked out leaves no trace in the answer;
            None where nobody has looked.
        own: queries, keys and values were made for this call, which alone has them: they are finite, and nobody changes
            what the weights are made from.
        plain: False once a mask or a parameter was found to be of a class whose numbers lie elsewhere.
        projected: `(batch, positions, …)`, what queries, keys and values of all heads are side by side parts of; None
            where they are not.
        seed: of the dropout that the native loop draws; None where it is torch's.
    """

    query: Tensor
    key: Tensor
    prepared: Prepared | None
    value: Tensor | None
    score: Score | Bound
    normalizer: Normalizer
    mask: Mask | None
    bias: Tensor | None
    refocus: tuple[Callable[[Tensor], Tensor], ...]
    dropout: float
    sizes: Sizes
    summary: MaskSummary
    is_dot: bool
    is_softmax: bool
    traced: bool
    mapped: bool
    hooked: bool
    safe: bool | None = None
    own: bool = False
    plain: bool = True
    projected: Tensor | None = None
    seed: int | None = None

    @staticmethod
    def of(
        query: Tensor,
        key: Tensor | Prepared,
        value: Tensor | None,
        score: ScoreLike,
        normalizer: NormalizerLike,
        mask: MaskLike | None,
        bias: Tensor | None,
        refocus: RefocusLike | None,
        dropout: float,
    ) -> "Call":
        """Resolve names and check what can be checked without computing."""
        prepared = key if isinstance(key, Prepared) else None
        plain = key.key if isinstance(key, Prepared) else key
        sizes = checked_sizes(query, plain, value)
        if prepared is not None:
            check_prepared(plain, prepared.projected)
        steps = () if refocus is None else (refocus,) if callable(refocus) else tuple(refocus)
        known = NO_MASK if mask is None else summarize(as_mask(mask), sizes)
        compare, weigh = _cached(scores, (Score, Bound), score), _cached(normalizers, Normalizer, normalizer)
        traced = torch.compiler.is_compiling()
        return Call(
            query,
            plain,
            prepared,
            value,
            compare,
            weigh,
            known.mask,
            bias if bias is None else checked_bias(bias, sizes, query),
            steps,
            checked_dropout(dropout) if dropout else dropout,
            sizes,
            known,
            # A `forward` that lies on the score itself counts as a hook.
            isinstance(compare, DotProduct) and type(compare).forward is DotProduct.forward,
            type(weigh) is Softmax and not isinstance(weigh.temperature, Tensor),
            traced,
            not traced and is_mapped(),
            is_hooked(compare, weigh),
        )

    def compared(self) -> Tensor:
        """The keys as the score compares them."""
        return self.key if self.prepared is None else self.prepared.projected

    # --- content ------------------------------------------------------------------------------------------------------

    def is_plain(self) -> bool:
        """Whether loops may read its numbers where they lie: nothing traces, maps or narrows them, or wraps them."""
        return self.plain and is_plain(self.query) and are_plain_tensors(self.compared(), self.value, self.bias)

    def is_readable(self) -> bool:
        """Whether its numbers may decide something now: a traced call has none yet."""
        return not (self.traced or self.mapped or self.query.is_meta) and is_plain_tensor(self.query)

    def is_safe(self) -> bool:
        """Whether all content is finite and moderate, so that what is masked out leaves no trace in the answer."""
        narrow = type(self.score) not in (Dot, ScaledDot, Cosine) and self._multiplies_in_float16()
        is_safe = guard.is_short if narrow else guard.is_safe
        if self.prepared is None:
            return is_safe(self.query, self.key, self.value)
        return is_safe(self.query) and guard.is_safe_cached(self.prepared.projected, self.value)

    def _multiplies_in_float16(self) -> bool:
        """Whether products of queries and keys with a score's parameters are made there."""
        device = self.query.device.type
        narrowed = torch.is_autocast_enabled(device)
        return (torch.get_autocast_dtype(device) if narrowed else self.query.dtype) is torch.float16

    # --- masks -------------------------------------------------------------------------------------------------------

    def draw(self) -> Tensor | None:
        """The mask for this call, with as many axes as the scores."""
        return self.drawn(self.mask)

    def drawn(self, mask: Mask | None) -> Tensor | None:
        """One mask for this call, with as many axes as the scores.

        Raises:
            MaskError: the mask does not fit the call, or has heads where the query has none.
        """
        if mask is None:
            return None
        drawn = mask.draw(self.sizes, self.query.device)
        if not self.traced and drawn._is_view():
            # Perhaps the caller's own tensor, such as what a pointer may still choose, which the next step changes.
            drawn = drawn.clone()
        if self.query.ndim == 3:
            if drawn.shape[1] != 1:
                raise MaskError(
                    f"the mask has {drawn.shape[1]} heads, but the query has shape {tuple(self.query.shape)}"
                )
            drawn = drawn.squeeze(1)
        return drawn
