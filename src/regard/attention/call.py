"""One call of attend: its parts resolved and checked, the path chosen, the paths walked."""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import guard as guarding
from regard.attention.attended import Attended, Source, transformed, watched
from regard.attention.functional import dot, wide
from regard.attention.linear import Linear, linear_attention
from regard.attention.masks import Causal, Joined, Mask, MaskLike, Padding, Sizes, as_mask, padding
from regard.attention.normalize import Normalizer, Softmax, Sum, normalizers
from regard.attention.score import Bound, DotProduct, Prepared, Score, scores
from regard.errors import ConfigError, MaskError, ShapeError
from regard.kernels import dispatch
from regard.kernels.sdpa import fused

ScoreLike = str | Score | Bound
NormalizerLike = str | Normalizer
RefocusLike = Sequence[Callable[[Tensor], Tensor]] | Callable[[Tensor], Tensor]

# Parts that `attend` was given by name: made once, and nobody else holds them. A module makes its own.
_made: dict[tuple[str, str], Any] = {}


def as_score(given: ScoreLike) -> Score | Bound:
    """A score made already, or by its name (if it has no parameters) a new one."""
    return given if not isinstance(given, str) else _new(scores, given)


def as_normalizer(given: NormalizerLike) -> Normalizer:
    """A normalizer made already, or by its name a new one."""
    made: Normalizer = given if not isinstance(given, str) else _new(normalizers, given)
    return made


def checked_dropout(dropout: float) -> float:
    if not 0.0 <= dropout <= 1.0:
        raise ConfigError(f"dropout is a probability between 0 and 1; it was {dropout}")
    return dropout


def _new(registry: Any, name: str) -> Any:
    try:
        return registry.make(name)
    except ConfigError as error:
        if name not in registry:
            raise
        raise ConfigError(
            f"the {registry.kind} {name!r} has sizes or parameters: make it once with "
            f"regard.{registry.kind}({name!r}, …) and pass that instead of its name"
        ) from error


def _once(registry: Any, given: Any) -> Any:
    if not isinstance(given, str):
        return given
    if (registry.kind, given) not in _made:
        _made[registry.kind, given] = _new(registry, given)
    return _made[registry.kind, given]


@dataclass(frozen=True)
class Call:
    """A checked call. Tensors are `(batch, [heads,] positions, dim)`."""

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
        sizes = _sizes(query, plain, value)
        steps = () if refocus is None else (refocus,) if callable(refocus) else tuple(refocus)
        return Call(
            query,
            plain,
            prepared,
            value,
            _once(scores, score),
            _once(normalizers, normalizer),
            None if mask is None else as_mask(mask),
            _checked_bias(bias, sizes, query.ndim),
            steps,
            checked_dropout(dropout),
            sizes,
        )

    # --- choosing ---------------------------------------------------------------------------------------------------

    def choose(self) -> tuple[dispatch.Choice, bool]:
        """The path, and whether hidden content must be guarded against while walking it."""
        # A traced call cannot look at its numbers, so it always guards; otherwise one cheap pass decides.
        blind = torch.compiler.is_compiling() or transformed() or self.query.is_meta
        hides = self.mask is not None
        unsafe = hides and not blind and not bool(guarding.is_safe(self.query, self._compared(), self.value))
        normalizer = self.normalizer
        facts = dispatch.Facts(
            score=_name(self.score),
            is_dot=self.score.is_dot,
            is_linear=self._is_linear(),
            additive=self.score.in_blocks(self.query, self.sizes.keys),
            normalizer=_name(normalizer),
            is_softmax=type(normalizer) is Softmax and not isinstance(normalizer.temperature, Tensor),
            has_value=self.value is not None,
            refocused=bool(self.refocus),
            dropout=self.dropout,
            empty=0 in self.query.shape or 0 in self.key.shape,
            transformed=transformed(),
            unsafe=unsafe,
        )
        return dispatch.choose(facts), hides and (blind or unsafe)

    def _compared(self) -> Tensor:
        return self.key if self.prepared is None else self.prepared.projected

    # --- walking ----------------------------------------------------------------------------------------------------

    def walk(self, at_once: bool) -> Attended:
        """Take the chosen path.

        Args:
            at_once: make the weights now; the context is the same either way.
        """
        choice, guarded = self.choose()
        keep = None
        whole = choice.path == "fused" and self._causal_square()
        if self.mask is not None and choice.path != "linear" and (guarded or not whole):
            keep = self.draw()
        call, spoiled = self._guarded(keep) if guarded and keep is not None else (self, None)
        if choice.path == "linear":
            attended = self._linear()
        elif choice.path == "fused":
            attended = call._fused(keep, spoiled, causal=whole)
        else:
            attended = call._explicit(keep, spoiled)
        if torch.compiler.is_compiling() and not at_once:
            # A graph cannot carry the recipe of its weights out; what is held already may leave.
            return Attended(attended.context, weights=attended._weights, log_prob=attended.log_prob)
        if at_once:
            return Attended(
                attended.context,
                weights=attended.weights,
                log_weights=attended.log_weights,
                log_prob=attended.log_prob,
            )
        return attended

    def draw(self) -> Tensor | None:
        """The mask for this call, with as many axes as the scores."""
        if self.mask is None:
            return None
        drawn = self.mask.draw(self.sizes, self.query.device)
        if not torch.compiler.is_compiling() and drawn._is_view():
            # Perhaps the caller's own tensor, such as what a pointer may still choose, which the next step changes.
            drawn = drawn.clone()
        if self.query.ndim == 3:
            if drawn.shape[1] != 1:
                raise MaskError(
                    f"the mask has {drawn.shape[1]} heads, but the query has shape {tuple(self.query.shape)}"
                )
            drawn = drawn.squeeze(1)
        return drawn

    def _is_linear(self) -> bool:
        """A product of feature maps over its sum, under a mask that needs no queries × keys."""
        square = self.sizes.queries == self.sizes.keys
        known = all(
            isinstance(mask, Padding) or (isinstance(mask, Causal) and (mask.anchor == "end" or square))
            for mask in _conjuncts(self.mask)
        )
        summed = isinstance(self.score, Linear) and type(self.normalizer) is Sum
        return summed and known and self.bias is None and self.prepared is None

    def _causal_square(self) -> bool:
        return isinstance(self.mask, Causal) and self.sizes.queries == self.sizes.keys

    def _guarded(self, keep: Tensor) -> tuple["Call", Tensor]:
        clean = guarding.guard(self.query, self._compared(), self.value, keep)
        if self.prepared is None:
            call = replace(self, query=clean.query, key=clean.key, value=clean.value)
        else:
            prepared = Prepared(self.prepared.key, clean.key)
            call = replace(self, query=clean.query, prepared=prepared, value=clean.value)
        return call, clean.spoiled

    def _ready(self) -> Prepared:
        return self.score.prepare(self.key) if self.prepared is None else self.prepared

    def _for_all_heads(self, tensor: Tensor) -> Tensor:
        """(batch, key_heads, …) -> (batch, heads, …)."""
        share = 1 if self.query.ndim == 3 else self.query.shape[1] // self.key.shape[1]
        return tensor if share == 1 else tensor.repeat_interleave(share, dim=1)

    def _scores(self) -> Tensor:
        scores = self.score(self.query, Prepared(*map(self._for_all_heads, self._ready())))
        return self._biased(scores)

    def _biased(self, scores: Tensor) -> Tensor:
        return scores if self.bias is None else scores + wide(self.bias)

    def _refocused(self, weights: Tensor, keep: Tensor | None) -> Tensor:
        if not self.refocus:
            return weights
        for step in self.refocus:
            weights = step(weights)
        # A shift or an interpolation may move weight onto hidden keys; it is dropped, not handed to others.
        return weights if keep is None else torch.where(keep, weights, 0.0)

    def _explicit(self, keep: Tensor | None, spoiled: Tensor | None) -> Attended:
        scores = self._scores()
        normalized = self.normalizer(scores, keep)
        log_prob = None
        if self.normalizer.draws:
            chosen = normalized.detach() > 0.5
            log_prob = torch.where(chosen, self.normalizer.log_weights(scores, keep), 0.0).sum(-1, keepdim=True)
            log_prob = guarding.spoil(log_prob, spoiled).squeeze(-1).to(self.query.dtype)
        weights = self._refocused(normalized, keep)
        context = None if self.value is None else guarding.spoil(self._read(weights), spoiled)

        def log_weights() -> Tensor:
            return guarding.spoil(self.normalizer.log_weights(scores, keep), spoiled, keep).to(self.query.dtype)

        seen = guarding.spoil(weights, spoiled, keep).to(self.query.dtype)
        return Attended(context, weights=seen, log_prob=log_prob, source=Source(lambda: seen, log_weights))

    def _read(self, weights: Tensor) -> Tensor:
        assert self.value is not None
        value = self._for_all_heads(self.value)
        if self.dropout > 0:
            weights = F.dropout(weights, self.dropout)
        return torch.matmul(weights.to(value.dtype), value).to(self.query.dtype)

    def _linear(self) -> Attended:
        assert isinstance(self.score, Linear) and self.value is not None
        masks = _conjuncts(self.mask)
        keep = None
        for mask in masks:
            if isinstance(mask, Padding):
                drawn = mask.draw(self.sizes, self.query.device)[:, 0, 0].expand(self.sizes.batch, -1)
                keep = drawn if keep is None else keep & drawn
        causal = [mask for mask in masks if isinstance(mask, Causal)]
        context = linear_attention(
            self.query, self.key, self.value, feature_map=self.score.feature_map, causal=bool(causal), keep=keep
        )
        # The weights are made under the padding of now, whatever becomes of the caller's lengths.
        padded = [] if keep is None else [padding(keep=keep.clone())]
        again = replace(self, mask=functools.reduce(operator.and_, [*causal, *padded]) if masks else None)
        return Attended(
            context.to(self.query.dtype), source=self._again(self._scores, again.draw, None, self.query, self.key)
        )

    def _fused(self, keep: Tensor | None, spoiled: Tensor | None, causal: bool) -> Attended:
        assert isinstance(self.score, DotProduct) and self.value is not None
        left, right, factor = self.score.dot_form(self.query, self._ready())
        scale = factor / float(self.normalizer.temperature)
        bias = self.bias if self.bias is None else wide(self.bias) / float(self.normalizer.temperature)
        sides = left, right, self.value
        if not torch.is_autocast_enabled(left.device.type):
            kind = torch.promote_types(left.dtype, self.value.dtype)
            sides = left.to(kind), right.to(kind), self.value.to(kind)
        context = fused(*sides, keep=keep, bias=bias, causal=keep is None and causal, scale=scale)
        context = guarding.spoil(context.to(self.query.dtype), spoiled)
        seen = self.draw if keep is None else lambda: keep

        def scores() -> Tensor:
            # From the two sides, not from the score's parameters, which an optimizer may have changed meanwhile.
            return self._biased(dot(left, self._for_all_heads(right), factor))

        return Attended(context, source=self._again(scores, seen, spoiled, left, right))

    def _again(
        self,
        scores: Callable[[], Tensor],
        seen: Callable[[], Tensor | None],
        spoiled: Tensor | None,
        *made_from: Tensor,
    ) -> Source:
        """How to make the weights after a path that did not form them."""

        def by(make: Callable[[Tensor, Tensor | None], Tensor]) -> Callable[[], Tensor]:
            def made() -> Tensor:
                keep = seen()
                return guarding.spoil(make(scores(), keep), spoiled, keep).to(self.query.dtype)

            return made

        return Source(by(self.normalizer), by(self.normalizer.log_weights), watched(*made_from, self.bias))


# --- checks ---------------------------------------------------------------------------------------------------------


def _name(part: Any) -> str:
    if isinstance(part, Bound):
        part = part.score
    registry = scores if isinstance(part, Score) else normalizers
    for name in registry:
        if registry.maker(name) is type(part):
            return name
    return type(part).__name__


def _conjuncts(mask: Mask | None) -> list[Mask]:
    """The masks that must all agree: `a & b & c` taken apart."""
    if mask is None:
        return []
    if isinstance(mask, Joined) and mask.sign == "&":
        return [*_conjuncts(mask.left), *_conjuncts(mask.right)]
    return [mask]


def _sizes(query: Tensor, key: Tensor, value: Tensor | None) -> Sizes:
    given = f"query {tuple(query.shape)}, key {tuple(key.shape)}"
    if value is not None:
        given = f"{given}, value {tuple(value.shape)}"  # torch.compile knows formatting, not adding, of such text
    tensors = [query, key] if value is None else [query, key, value]
    if query.ndim not in (3, 4) or any(tensor.ndim != query.ndim for tensor in tensors):
        raise ShapeError(
            "expected query, key and value all (batch, positions, dim) or all (batch, heads, positions, dim); "
            f"got {given}"
        )
    if any(tensor.shape[0] != query.shape[0] for tensor in tensors):
        raise ShapeError(f"query, key and value must have one batch size; got {given}")
    if value is not None and value.shape[:-1] != key.shape[:-1]:
        raise ShapeError(f"key and value must agree in all axes but the last: a value for each key; got {given}")
    if query.ndim == 4 and (key.shape[1] == 0 or query.shape[1] % key.shape[1] != 0):
        raise ShapeError(f"the number of key heads must divide the number of query heads; got {given}")
    kinds = {tensor.dtype for tensor in tensors}
    if not all(kind.is_floating_point for kind in kinds):
        raise ShapeError(f"query, key and value must be floating point; got {sorted(map(str, kinds))}")
    if len(kinds) > 1 and (torch.float64 in kinds or not torch.is_autocast_enabled(query.device.type)):
        raise ShapeError(
            "query, key and value must have one dtype (outside autocast, which never changes float64); "
            f"got {sorted(map(str, kinds))}"
        )
    heads = query.shape[1] if query.ndim == 4 else 1
    return Sizes(query.shape[0], heads, query.shape[-2], key.shape[-2])


def _checked_bias(bias: Tensor | None, sizes: Sizes, axes: int) -> Tensor | None:
    """The bias with as many axes as the scores: (queries, keys), (batch, queries, keys) or with heads, 1 = for all."""
    if bias is None:
        return None
    batch, heads, queries, keys = sizes
    if not bias.is_floating_point():
        raise ShapeError(
            f"bias= is added to the scores and must be floating point; it is {bias.dtype}. For a mask use mask="
        )
    allowed = {2: (queries, keys), 3: (batch, queries, keys), 4: (batch, heads, queries, keys)}
    wanted = allowed.get(bias.ndim)
    if (
        wanted is None
        or bias.ndim > axes
        or any(have not in (1, want) for have, want in zip(bias.shape, wanted, strict=True))
    ):
        raise ShapeError(
            f"bias has shape {tuple(bias.shape)}; expected one of {[allowed[n] for n in range(2, axes + 1)]}"
        )
    if bias.ndim == 2:
        return bias.reshape((1,) * (axes - 2) + tuple(bias.shape))
    return bias.unsqueeze(1) if bias.ndim < axes else bias
