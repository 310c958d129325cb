"""One call of attend: its parts resolved and checked, the path chosen, the paths walked."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import guard as guarding
from regard.attention.attended import Attended, Source, transformed, watched
from regard.attention.checks import checked_bias, checked_dropout, checked_sizes
from regard.attention.functional import dot, wide
from regard.attention.linear import Linear, linear_attention
from regard.attention.masks import Causal, Mask, MaskLike, Padding, Sizes, as_mask, causal, padding
from regard.attention.normalize import Normalizer, Softmax, Sum, normalizers
from regard.attention.score import Bound, DotProduct, Prepared, Score, scores
from regard.attention.seen import Seen, conjuncts, joined, seen
from regard.errors import ConfigError, MaskError
from regard.kernels import dispatch, rows
from regard.kernels.blocked import blocked
from regard.kernels.calls import is_plain
from regard.kernels.ragged import ragged
from regard.kernels.sdpa import fused
from regard.kernels.windowed import windowed

ScoreLike = str | Score | Bound
NormalizerLike = str | Normalizer
RefocusLike = Sequence[Callable[[Tensor], Tensor]] | Callable[[Tensor], Tensor]

_LARGE = 2**16
"""Queries × keys from which blocks are faster than all weights at once."""

# Parts that `attend` was given by name: made once, and nobody else holds them. A module makes its own.
_made: dict[tuple[str, str], Any] = {}


def as_score(given: ScoreLike) -> Score | Bound:
    """A score made already, or by its name (if it has no parameters) a new one."""
    return given if not isinstance(given, str) else _new(scores, given)


def as_normalizer(given: NormalizerLike) -> Normalizer:
    """A normalizer made already, or by its name a new one."""
    made: Normalizer = given if not isinstance(given, str) else _new(normalizers, given)
    return made


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


def _name(part: Any) -> str:
    if isinstance(part, Bound):
        part = part.score
    registry = scores if isinstance(part, Score) else normalizers
    for name in registry:
        if registry.maker(name) is type(part):
            return name
    return type(part).__name__


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
    seen: Seen

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
        steps = () if refocus is None else (refocus,) if callable(refocus) else tuple(refocus)
        known = seen(None if mask is None else as_mask(mask), sizes)
        return Call(
            query,
            plain,
            prepared,
            value,
            _once(scores, score),
            _once(normalizers, normalizer),
            known.mask,
            checked_bias(bias, sizes, query.ndim),
            steps,
            checked_dropout(dropout),
            sizes,
            known,
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
            rows=self._takes_rows(),
            normalizer=_name(normalizer),
            is_softmax=type(normalizer) is Softmax and not isinstance(normalizer.temperature, Tensor),
            has_value=self.value is not None,
            refocused=bool(self.refocus),
            dropout=self.dropout,
            empty=0 in self.query.shape or 0 in self.key.shape,
            transformed=transformed(),
            unsafe=unsafe,
            blocks=self._blocks(),
            bias_learned=self._learns_bias(),
            ragged=self.seen.ragged,
            windowed=self._is_windowed(),
        )
        return dispatch.choose(facts), hides and (blind or unsafe)

    def _blocks(self) -> bool:
        """Whether a path whose gradients are written out may be taken, and is worth it."""
        on_processor = self.query.device.type == "cpu" and is_plain(self.query)
        return on_processor and self.sizes.queries * self.sizes.keys >= _LARGE

    def _learns_bias(self) -> bool:
        """Whether torch's fused kernel would refuse the bias, and blocks are faster with gradients, too."""
        learned = self.bias is not None and self.bias.requires_grad and torch.is_grad_enabled()
        return learned and self._blocks() and self.sizes.queries * self.sizes.keys >= 16 * _LARGE

    def _is_windowed(self) -> bool:
        """Under a window alone, and one that hides most."""
        seen = self.seen
        alone = seen.rest is None and seen.lengths is None and self.bias is None
        return alone and seen.window is not None and 4 * sum(seen.window) + 256 <= self.sizes.keys

    def _compared(self) -> Tensor:
        return self.key if self.prepared is None else self.prepared.projected

    # --- walking ----------------------------------------------------------------------------------------------------

    def walk(self, at_once: bool) -> Attended:
        """Take the chosen path.

        Args:
            at_once: make the weights now; the context is the same either way.
        """
        choice, guarded = self.choose()
        keep = self._drawn_for(choice.path, guarded)
        call, spoiled = self._guarded(keep) if guarded and keep is not None else (self, None)
        if choice.path == "linear":
            attended = self._linear()
        elif choice.path == "additive" and self._takes_rows():
            attended = call._by_rows(keep, spoiled)
        elif choice.path in ("explicit", "additive"):
            attended = call._explicit(keep, spoiled)
        else:
            attended = call._dotted(choice.path, keep, spoiled)
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

    def _drawn_for(self, path: dispatch.Path, guarded: bool) -> Tensor | None:
        """What of the mask this path must be given as a tensor."""
        seen = self.seen
        if path in ("linear", "ragged", "windowed"):
            return None
        if path == "blocked":
            return self._draw(seen.beside_causal)
        if path == "fused" and not guarded and seen.causal and seen.beside_causal is None:
            return None
        return self.draw()

    def draw(self) -> Tensor | None:
        """The mask for this call, with as many axes as the scores."""
        return self._draw(self.mask)

    def _draw(self, mask: Mask | None) -> Tensor | None:
        if mask is None:
            return None
        drawn = mask.draw(self.sizes, self.query.device)
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
            for mask in conjuncts(self.mask)
        )
        summed = isinstance(self.score, Linear) and type(self.normalizer) is Sum
        return summed and known and self.bias is None and self.prepared is None

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

    def _takes_rows(self) -> bool:
        """Whether so many weights are formed for some queries at a time: none may depend on another query's."""
        fixed = isinstance(self.score, Score) and not isinstance(self.normalizer.temperature, Tensor)
        apart = fixed and self.value is not None and not self.refocus and not self.normalizer.draws
        return apart and self.sizes.queries > 1 and math.prod(self.sizes) >= rows.MANY

    def _by_rows(self, keep: Tensor | None, spoiled: Tensor | None) -> Attended:
        assert isinstance(self.score, Score)
        ready = self._ready()

        def context(part: slice) -> Tensor:
            call = replace(self, query=self.query[..., part, :], prepared=ready, bias=rows.some(self.bias, part))
            return call._read(call.normalizer(call._scores(), rows.some(keep, part)))

        whole = rows.by_rows(context, self.sizes.queries, math.prod(self.sizes), draws=self.dropout > 0)
        # The weights are made from the score's parameters: once these have changed they are others.
        made_from = self.query, ready.projected, *self.score.parameters()
        again = replace(self, prepared=ready)._scores
        return Attended(guarding.spoil(whole, spoiled), source=self._again(again, lambda: keep, spoiled, *made_from))

    def _read(self, weights: Tensor) -> Tensor:
        assert self.value is not None
        value = self._for_all_heads(self.value)
        if self.dropout > 0:
            weights = F.dropout(weights, self.dropout)
        return torch.matmul(weights.to(value.dtype), value).to(self.query.dtype)

    def _linear(self) -> Attended:
        assert isinstance(self.score, Linear) and self.value is not None
        masks = conjuncts(self.mask)
        keep = None
        for mask in masks:
            if isinstance(mask, Padding):
                drawn = mask.draw(self.sizes, self.query.device)[:, 0, 0].expand(self.sizes.batch, -1)
                keep = drawn if keep is None else keep & drawn
        lower = [mask for mask in masks if isinstance(mask, Causal)]
        three, phi = (self.query, self.key, self.value), self.score.feature_map
        context = linear_attention(*three, feature_map=phi, causal=bool(lower), keep=keep)
        # The weights are made under the padding of now, whatever becomes of the caller's lengths.
        padded = [] if keep is None else [padding(keep=keep.clone())]
        again = replace(self, mask=joined([*lower, *padded]))
        return Attended(
            context.to(self.query.dtype), source=self._again(self._scores, again.draw, None, self.query, self.key)
        )

    def _dotted(self, path: dispatch.Path, keep: Tensor | None, spoiled: Tensor | None) -> Attended:
        """A softmax of dot products, by a path that does not keep the weights."""
        assert isinstance(self.score, DotProduct) and self.value is not None
        left, right, factor = self.score.dot_form(self.query, self._ready())
        temperature = float(self.normalizer.temperature)
        scale, bias = factor / temperature, None if self.bias is None else wide(self.bias) / temperature
        sides = left, right, self.value
        if not torch.is_autocast_enabled(left.device.type):
            kind = torch.promote_types(left.dtype, self.value.dtype)
            sides = left.to(kind), right.to(kind), self.value.to(kind)
        known = self.seen
        if path == "blocked":
            context = blocked(*sides, keep=keep, bias=bias, causal=known.causal, scale=scale, dropout=self.dropout)
        elif path == "ragged":
            assert known.lengths is not None
            context = ragged(*sides, lengths=known.lengths, bias=bias, causal=known.causal, scale=scale)
        elif path == "windowed":
            assert known.window is not None
            context = windowed(*sides, left=known.window[0], right=known.window[1], scale=scale)
        else:
            context = fused(*sides, keep=keep, bias=bias, causal=keep is None and known.causal, scale=scale)
        context = guarding.spoil(context.to(self.query.dtype), spoiled)

        def visible() -> Tensor | None:
            # A part that was drawn may be of the caller's tensors, which may have changed; the others are our own.
            if known.rest is None and spoiled is None:
                return self.draw()
            lower = self._draw(causal()) if path == "blocked" and known.causal else None
            return keep if lower is None else lower if keep is None else keep & lower

        def scores() -> Tensor:
            # From the two sides: an optimizer may have changed the score's parameters meanwhile.
            return self._biased(dot(left, self._for_all_heads(right), factor))

        return Attended(context, source=self._again(scores, visible, spoiled, left, right))

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
