"""Which path a call takes, and why: one function from the facts of a call to the name of a path.

The paths give the same numbers. "explicit" forms every weight and can do everything; "fused" is
`scaled_dot_product_attention`; "blocked" makes the weights of some queries at a time; "ragged" is fused over each
item's own keys, "windowed" over each block's own window; "native" is one loop for all of these, where a C++ compiler
could build it; "linear" never forms queries × keys; "additive" makes an additive score without its table of pairs ×
hidden units, and goes on as "explicit" does.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

Path = Literal["explicit", "fused", "blocked", "ragged", "windowed", "native", "linear", "additive"]


class Facts(NamedTuple):
    """What the choice depends on.

    Attributes:
        names: gives the names of the score and the normalizer, which only reasons need.
        is_dot: the score is a dot product of two prepared sides.
        is_linear: the score is a product of feature maps and the normalizer their sum, under a mask that path knows.
        additive: how pairs of an additive score are made in blocks, in words; None where they are not.
        in_chunks: so many weights that they are made for some queries at a time, where a path knows how.
        in_native_loop: and a native loop weighs and reads them as they are made.
        is_softmax: it is softmax with a fixed temperature.
        has_value: there is something to read; without it the weights are the answer.
        has_hooks: the score or the normalizer has hooks, so that they have to be called.
        refocused: weights are changed after they were normalised.
        dropout: the rate.
        empty: an axis has size 0.
        transformed: inside vmap, jvp and the like, which the fused kernels do not know.
        unsafe: something masked out holds NaN, inf or numbers whose product could overflow.
        blocks: a plain call on a processor, of so many queries × keys that blocks pay, which no native loop takes.
        bias_needs_gradient: it does; determined only where no native loop takes the call, as is `windowed`.
        ragged: the mask is lengths, perhaps with a causal one, and nothing else.
        windowed: it is a window that masks most out, and nothing else.
        loop: a native loop takes calls like this one, if its score and normalizer allow.
    """

    names: Callable[[], tuple[str, str]]
    is_dot: bool
    is_linear: bool
    additive: str | None
    in_chunks: bool
    in_native_loop: bool
    is_softmax: bool
    has_value: bool
    has_hooks: bool
    refocused: bool
    dropout: float
    empty: bool
    transformed: bool
    unsafe: bool
    blocks: bool
    bias_needs_gradient: bool
    ragged: bool
    windowed: bool
    loop: bool


class Choice(NamedTuple):
    """A path and what it was chosen by."""

    path: Path
    facts: Facts

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, in words."""
        return _reasons(self.path, self.facts)


def choose(facts: Facts) -> Choice:
    """The fastest path that gives this call's numbers."""
    return Choice(_path(facts), facts)


def _path(facts: Facts) -> Path:
    against = _against(facts)
    if facts.is_linear and facts.dropout == 0 and not against:
        return "linear"
    if facts.additive is not None:
        return "additive"
    if against or not facts.is_dot or not facts.is_softmax:
        return "explicit"
    if facts.loop:
        return "native"
    if facts.blocks and (facts.dropout > 0 or facts.bias_needs_gradient):
        return "blocked"
    if facts.blocks and facts.ragged:
        return "ragged"
    if facts.blocks and facts.windowed:
        return "windowed"
    return "fused"


def _against(facts: Facts) -> list[str]:
    """What only a path that forms every weight can do."""
    against = []
    if not facts.has_value:
        against.append("there is no value: the weights are the answer")
    if facts.has_hooks:
        against.append("the score or the normalizer has hooks: they are called")
    if facts.refocused:
        against.append("refocus= changes the weights after they are normalised")
    if facts.dropout > 0 and not (facts.blocks or facts.loop):
        against.append("dropout= is above 0, which only plain calls of many positions on a processor take in blocks")
    if facts.empty:
        against.append("an axis has size 0")
    if facts.transformed:
        against.append("inside vmap, jvp or forward-mode differentiation")
    if facts.unsafe:
        against.append("something masked out is NaN, inf or huge, and is kept from the answer step by step")
    return against


def _reasons(path: Path, facts: Facts) -> tuple[str, ...]:
    score, normalizer = facts.names()
    computes = f"{score!r} with softmax is what scaled_dot_product_attention computes"
    if path == "linear":
        return ("a product of feature maps normalised by its sum is read without queries × keys",)
    if path == "additive":
        taken = "weighed and read as they are made" if facts.in_native_loop else "made for some queries at a time"
        parts = (f"there are many weights: they are {taken}",) if facts.in_chunks else ()
        return (f"the score {score!r} is made {facts.additive}", *parts)
    if path == "explicit":
        against = _against(facts)
        if not facts.is_dot:
            against.append(f"the score {score!r} is not a dot product")
        if not facts.is_softmax:
            against.append(f"the normalizer {normalizer!r} is not softmax with a fixed temperature")
        return tuple(against)
    if path == "native":
        return (f"{score!r} with softmax is read tile by tile, in a loop compiled for this processor",)
    if path == "blocked":
        slow = "dropout= is above 0" if facts.dropout > 0 else "bias= needs a gradient"
        return (f"{computes}, but {slow}, where it would keep queries × keys",)
    if path == "ragged":
        return (computes, "the mask is lengths: each item is computed with its own keys")
    if path == "windowed":
        return (computes, "the mask is a window: a block of queries meets its own keys alone")
    return (computes,)
