"""Attended: what an attention returns, a context and the weights that made it."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from regard.attention.statistics import Statistics, statistics_of
from regard.errors import RegardError


class Attended:
    """A context and the weights that made it.

    Attributes:
        context: `(batch, [heads,] queries, value_dim)`, or None where there was no value (a pointer).
        log_prob: the log-probability of a draw, `(batch, [heads,] queries)`, or None.

    `weights` and `log_weights` are made on first access and differentiable while the graph lives. Nothing about the
    context depends on whether anybody looks. Attended is a pytree of the tensors that it holds at that time: what was
    not made yet does not pass through vmap, export or a tree map, so request it with `attend(…, weights=True)`.
    """

    def __init__(
        self,
        context: Tensor | None,
        *,
        weights: Tensor | None = None,
        log_weights: Tensor | None = None,
        log_prob: Tensor | None = None,
        statistics: Statistics | None = None,
        source: "Recipe | None" = None,
    ) -> None:
        self.context = context
        self.log_prob = log_prob
        self._weights = weights
        self._log_weights = log_weights
        self._statistics = statistics
        self._source = source

    @property
    def weights(self) -> Float[Tensor, "*lead queries keys"]:
        """After refocus, without dropout; the same draw as the context's where the normalizer draws."""
        if self._weights is None:
            self._weights = self._made_from().weights()
        return self._weights

    @property
    def log_weights(self) -> Float[Tensor, "*lead queries keys"]:
        """Logarithm of the weights after the mask and before refocus, −inf at masked-out keys: the pointer's loss."""
        if self._log_weights is None:
            self._log_weights = self._made_from().log_weights()
        return self._log_weights

    def statistics(self, top: int = 0) -> Statistics:
        """Entropy, maximum and what each key received, in memory that does not grow with queries × keys.

        Args:
            top: how many of each query's largest weights are included, with their keys.

        Returns:
            The statistics of the weights (after refocus, without dropout), in at least float32 and without gradients.

        Raises:
            ConfigError: `top` is below 0 or above the number of keys.
            RegardError: the weights are gone, as for `weights`.
        """
        held = self._statistics
        if held is None or held.top_keys.shape[-1] < top:
            held = self._statistics = self._observed(top)
        return held.largest(top)

    def _observed(self, top: int) -> Statistics:
        if self._weights is None:
            make = self._made_from().statistics
            if make is not None:
                return make(top)
        weights = self.weights
        return statistics_of(lambda part: weights[..., part, :], tuple(weights.shape), top)

    def with_context(self, context: Tensor | None) -> "Attended":
        """The same attention with another context, e.g. after an output projection."""
        return Attended(
            context,
            weights=self._weights,
            log_weights=self._log_weights,
            log_prob=self.log_prob,
            statistics=self._statistics,
            source=self._source,
        )

    def _made_from(self) -> "Recipe":
        if self._source is None:
            raise RegardError(
                "these weights were not made with the context, and what made it is gone (it passed through "
                "torch.compile, torch.export, vmap or a tree map). Call attend(…, weights=True)"
            )
        self._source.check()
        return self._source

    def __repr__(self) -> str:
        context = None if self.context is None else tuple(self.context.shape)
        return f"Attended(context={context}, weights={'made' if self._weights is not None else 'on access'})"


class Recipe(Protocol):
    """How to make the weights again from what made the context."""

    @property
    def weights(self) -> Callable[[], Tensor]:
        """Makes them."""
        ...

    @property
    def log_weights(self) -> Callable[[], Tensor]:
        """Makes their logarithms."""
        ...

    @property
    def statistics(self) -> Callable[[int], Statistics] | None:
        """Makes their statistics without making all of them, given how many of the largest are wanted."""
        ...

    def check(self) -> None:
        """Raise an error where what was changed since the call would give weights that never made the context."""
        ...


class Source(NamedTuple):
    """A recipe whose ingredients nobody changes."""

    weights: Callable[[], Tensor]
    log_weights: Callable[[], Tensor]
    statistics: Callable[[int], Statistics] | None = None

    def check(self) -> None:
        """Nothing to check: nobody changes what these are made from."""


Counted = list[tuple[Tensor, int]]


def counted(*tensors: Tensor | None) -> Counted:
    """Tensors and how often each was changed until now; those of inference mode do not count their changes."""
    counts: Counted = []
    for tensor in tensors:  # a comprehension would be a function more to enter
        if tensor is not None and not tensor.is_inference():
            counts.append((tensor, tensor._version))
    return counts


def check_unchanged(counts: Counted) -> None:
    """These tensors are as they were when they were counted.

    Raises:
        RegardError: one was changed in place.
    """
    if any(tensor._version != count for tensor, count in counts):
        raise RegardError(
            "these weights are made on first access, and what they are made from (query, key or bias) was changed "
            "in place after the call, perhaps by an optimizer's step. Read them before, or call attend(…, weights=True)"
        )


_FIELDS = ("context", "_weights", "_log_weights", "log_prob")


def _flatten(attended: Attended) -> tuple[list[Tensor], tuple[str, ...]]:
    held = tuple(name for name in _FIELDS if getattr(attended, name) is not None)
    return [getattr(attended, name) for name in held], held


def _unflatten(tensors: Any, held: tuple[str, ...]) -> Attended:
    by_name = dict(zip(held, tensors, strict=True))
    return Attended(
        by_name.get("context"),
        weights=by_name.get("_weights"),
        log_weights=by_name.get("_log_weights"),
        log_prob=by_name.get("log_prob"),
    )


pytree.register_pytree_node(
    Attended,
    _flatten,
    _unflatten,
    serialized_type_name="regard.Attended",
    to_dumpable_context=list,
    from_dumpable_context=tuple,
)


def transformed() -> bool:
    """Whether the call is inside vmap, jvp or forward-mode differentiation."""
    # The compiler differentiates and maps what it has traced; its view of the stack says nothing.
    return not torch.compiler.is_compiling() and is_mapped()


def is_mapped() -> bool:
    """Likewise, for a call that is known not to be traced."""
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
