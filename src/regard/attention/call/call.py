"""One call of attend: its parts resolved and checked, and the path chosen; `run` takes it."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.attended import is_mapped
from regard.attention.call import guard as guarding
from regard.attention.call.checks import are_plain_tensors, check_prepared, checked_bias, checked_dropout, checked_sizes
from regard.attention.call.mask_summary import DecomposedMask, MaskSummary, conjuncts, decompose, summarize
from regard.attention.modules.linear import Linear
from regard.attention.parts.mask_kinds import Causal, Mask, MaskLike, Padding, Sizes, as_mask
from regard.attention.parts.normalize import Normalizer, Softmax, Sum, normalizers
from regard.attention.parts.score import Additive, Cosine, Dot, LocationAware, ScaledDot
from regard.attention.parts.score_base import Bound, DotProduct, Prepared, Score, scores
from regard.attention.paths import choose
from regard.errors import ConfigError, MaskError, quoted
from regard.kernels.additive import attend as additive_attend
from regard.kernels.autograd.hooks import is_hooked, is_unmodified
from regard.kernels.autograd.plain import is_plain, is_plain_tensor
from regard.kernels.dot import dot, safety
from regard.kernels.fallback import query_chunks

ScoreLike = str | Score | Bound
NormalizerLike = str | Normalizer
RefocusLike = Sequence[Callable[[Tensor], Tensor]] | Callable[[Tensor], Tensor]

_LARGE = 2**16
"""Queries × keys from which blocks are faster than all weights at once."""

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


def _name(part: Any) -> str:
    if isinstance(part, Bound):
        part = part.score
    registry = scores if isinstance(part, Score) else normalizers
    for name in registry:
        if registry.maker(name) is type(part):
            return name
    return type(part).__name__


def visible(known: DecomposedMask, keep: Tensor | None) -> dot.Visible:
    """A mask taken apart, as the native loop takes it.

    Args:
        known: what the loop need not be drawn.
        keep: the rest of the mask, drawn.
    """
    return dot.Visible(known.causal, known.offset, known.window, known.lengths, keep, known.query_lengths)


class Plan(NamedTuple):
    """How a call is taken.

    Attributes:
        choice: its path.
        guarded: masked-out content must be guarded against in its run.
        checks_in_loop: whether the call's numbers are finite is left to its loop to find.
        masked_unread: what is masked out may hold anything, for the loop does not read it.
        draws: dropout is the native loop's, which has draws of its own, even where masked-out content sends the call
            another way.
    """

    choice: choose.Choice
    guarded: bool
    checks_in_loop: bool
    masked_unread: bool
    draws: bool


class Call(NamedTuple):
    """A checked call. Tensors are `(batch, [heads,] positions, dim)`; a `seed` is that of the native loop's draws."""

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
    traced: bool
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
        known = summarize(None if mask is None else as_mask(mask), sizes)
        return Call(
            query,
            plain,
            prepared,
            value,
            _cached(scores, (Score, Bound), score),
            _cached(normalizers, Normalizer, normalizer),
            known.mask,
            checked_bias(bias, sizes, query),
            steps,
            checked_dropout(dropout),
            sizes,
            known,
            torch.compiler.is_compiling(),
        )

    # --- choosing ---------------------------------------------------------------------------------------------------

    def choose(self, *, ahead: bool = True) -> Plan:
        """The path, and what keeps masked-out content from leaving a trace.

        Args:
            ahead: check for such content here; else that is left to a loop that checks all that it reads.
        """
        mapped, linear = not self.traced and is_mapped(), self.is_linear()
        # A traced call cannot read its numbers, so it always guards; otherwise one cheap pass decides.
        masked = self.mask is not None
        unreadable = masked and (self.traced or mapped or self.query.is_meta or not is_plain_tensor(self.query))
        normalizer = self.normalizer
        additive, loop = self.score.in_blocks(self.query, self.sizes.keys), self._takes_native_loop()
        in_chunks = additive is not None and self.takes_query_chunks()
        has_hooks = is_hooked(self.score, normalizer)
        facts = choose.Facts(
            names=self.names,
            is_dot=self._is_dot(),
            is_linear=linear,
            additive=additive,
            in_chunks=in_chunks,
            in_native_loop=in_chunks and self.attends_natively(),
            is_softmax=type(normalizer) is Softmax and not isinstance(normalizer.temperature, Tensor),
            has_value=self.value is not None,
            has_hooks=has_hooks,
            refocused=bool(self.refocus),
            dropout=self.dropout,
            empty=not (self.query.numel() and self.key.numel()),
            transformed=mapped,
            unsafe=False,
            blocks=not loop and self._blocks(),
            bias_needs_gradient=not loop and self._bias_needs_gradient(),
            ragged=self.summary.ragged(),
            windowed=not loop and self._is_windowed(),
            loop=loop,
        )
        choice = choose.choose(facts)
        checks_in_loop = masked and not unreadable and choice.path != "linear"  # which looks after itself
        draws = self.dropout > 0 and choice.path == "native" and not self.query.is_meta
        in_loop = checks_in_loop and choice.path == "native" and self._loop_checks_safety()
        if not checks_in_loop or (in_loop and not ahead):
            return Plan(choice, unreadable, in_loop, in_loop, draws)
        if self._is_safe():
            return Plan(choice, False, False, False, draws)
        if in_loop and self._is_read_safely():
            return Plan(choice, False, False, True, draws)
        return Plan(choose.choose(facts._replace(unsafe=True)), True, False, False, draws)

    def _is_safe(self) -> bool:
        """Whether all content is finite and moderate, so that what is masked out leaves no trace in the answer."""
        narrow = type(self.score) not in (Dot, ScaledDot, Cosine) and self._multiplies_in_float16()
        is_safe = guarding.is_short if narrow else guarding.is_safe
        if self.prepared is None:
            return is_safe(self.query, self.key, self.value)
        return is_safe(self.query) and guarding.is_safe_cached(self.prepared.projected, self.value)

    def _multiplies_in_float16(self) -> bool:
        """Whether products of queries and keys with a score's parameters are made there."""
        device = self.query.device.type
        narrowed = torch.is_autocast_enabled(device)
        return (torch.get_autocast_dtype(device) if narrowed else self.query.dtype) is torch.float16

    def _loop_checks_safety(self) -> bool:
        """Whether the native loop reads what the caller gave, with nothing made of it first, and checks it.

        What is made of masked-out content, parameters say, would get a gradient of 0 · NaN.
        """
        score, prepared = self.score, self.prepared
        given = type(score) in (Dot, ScaledDot) or (type(score) is Cosine and not isinstance(score.strength, Tensor))
        untouched = prepared is None or prepared.projected is prepared.key
        return given and untouched and self.query.dtype in (torch.float32, torch.float64)

    def _is_read_safely(self) -> bool:
        """Whether the native loop would say so of what it reads: not all, and a cosine's directions."""
        assert isinstance(self.score, DotProduct) and self.value is not None
        query, key, factor, directions = self.score.loop_form(self.query, self.key, self.prepared)
        return safety.reads_safely(
            query,
            key,
            self.value,
            visible=visible(decompose(self.mask, self.sizes), None),
            scale=factor / float(self.normalizer.temperature),
            directions=directions,
        )

    def names(self) -> tuple[str, str]:
        """Of the score and the normalizer."""
        return _name(self.score), _name(self.normalizer)

    def _takes_native_loop(self) -> bool:
        """Whether the native loop for dot products takes such calls, and is worth it."""
        if self.value is None or self.traced or not dot.is_worthwhile(self.sizes, self.dropout):
            return False  # a traced call would be tied to its sizes by their comparison
        kind = type(self.query)  # what `serves` finds of one of a class holds for all of it
        for one in (self.compared(), self.value, self.bias):
            if one is not None and type(one) is not kind and not is_plain_tensor(one):
                return False
        return dot.serves(self.query, self.query, self.value)

    def _blocks(self) -> bool:
        """Whether a path with a hand-written backward may be taken, and is worth it."""
        if self.traced or self.sizes.queries * self.sizes.keys < _LARGE:
            return False
        return self.query.is_cpu and is_plain(self.query) and are_plain_tensors(self.compared(), self.value, self.bias)

    def _bias_needs_gradient(self) -> bool:
        """Whether torch's fused kernel would refuse the bias, and blocks are faster with gradients, too."""
        learned = self.bias is not None and self.bias.requires_grad and torch.is_grad_enabled()
        return learned and self._blocks() and self.sizes.queries * self.sizes.keys >= 16 * _LARGE

    def _is_windowed(self) -> bool:
        """Under a window alone, and one that masks most out."""
        summary = self.summary
        alone = summary.rest is None and summary.lengths is None and self.bias is None
        return alone and summary.window is not None and 4 * sum(summary.window) + 256 <= self.sizes.keys

    def compared(self) -> Tensor:
        """The keys as the score compares them."""
        return self.key if self.prepared is None else self.prepared.projected

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

    def _is_dot(self) -> bool:
        """Whether scores are the products of what `dot_form` gives: a subclass may make others of them."""
        # Done at each call, so in few steps; a `forward` that lies on the score itself counts as a hook.
        return isinstance(self.score, DotProduct) and type(self.score).forward is DotProduct.forward

    def is_linear(self) -> bool:
        """A product of feature maps over its sum, under a mask that needs no queries × keys."""
        if not isinstance(self.score, Linear) or type(self.normalizer) is not Sum:
            return False
        if not is_unmodified(
            self.score, Linear, methods=("prepare", "dot_form", "forward")
        ):  # its products may be others
            return False
        square = self.sizes.queries == self.sizes.keys
        known = all(
            isinstance(mask, Padding) or (isinstance(mask, Causal) and (mask.anchor == "end" or square))
            for mask in conjuncts(self.mask)
        )
        return known and self.bias is None and self.prepared is None

    def takes_query_chunks(self) -> bool:
        """Whether so many weights are formed for some queries at a time: none may depend on another query's."""
        fixed = isinstance(self.score, Score) and not isinstance(self.normalizer.temperature, Tensor)
        separable = fixed and self.value is not None and not self.refocus and not self.normalizer.draws
        return separable and self.sizes.queries > 1 and math.prod(self.sizes) >= query_chunks.MANY

    def attends_natively(self) -> bool:
        """Whether so many additive scores are weighed and read as they are made, in a native loop."""
        if not isinstance(self.score, Additive) or type(self.normalizer) is not Softmax:
            return False
        if not is_unmodified(self.score, Additive) and not is_unmodified(
            self.score, LocationAware, methods=("pair_form", "forward")
        ):  # a subclass's scores may be others than its pairs say
            return False
        if is_hooked(self.score, self.normalizer) or not are_plain_tensors(self.compared(), self.value, self.bias):
            return False
        if self.value is None or not self.takes_query_chunks():
            return False
        pairs, width = math.prod(self.sizes), self.score.hidden_dim
        return additive_attend.serves(self.query, pairs, width, self.value.shape[-1])
