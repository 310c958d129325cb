"""Which path a call takes, and why: one function from the facts of a call to the name of a path.

The paths give the same numbers. "explicit" forms every weight and can do everything; "fused" is
`scaled_dot_product_attention`; "blocked" makes the weights of some queries at a time; "ragged" is fused over each
item's own keys, "windowed" over each block's own window; "compiled" is one loop for all of these, where a C++ compiler
could build it; "linear" never forms queries × keys; "additive" makes an additive score without its table of pairs ×
hidden units, and goes on as "explicit" does.
"""

from dataclasses import dataclass
from typing import Literal

Path = Literal["explicit", "fused", "blocked", "ragged", "windowed", "compiled", "linear", "additive"]


@dataclass(frozen=True)
class Facts:
    """What the choice depends on.

    Attributes:
        score: the score's name, for the reason given.
        is_dot: the score is a dot product of two prepared sides.
        is_linear: the score is a product of feature maps and the normalizer their sum, under a mask that path knows.
        additive: how pairs of an additive score are made in blocks, in words; None where they are not.
        rows: so many weights that they are made for some queries at a time, where a path knows how.
        in_a_loop: and a compiled loop weighs and reads them as they are made.
        normalizer: the normalizer's name.
        is_softmax: it is softmax with a fixed temperature.
        has_value: there is something to read; without it the weights are the answer.
        refocused: weights are changed after they were normalised.
        dropout: the rate.
        empty: an axis has size 0.
        transformed: inside vmap, jvp and the like, which the fused kernels do not know.
        unsafe: something hidden holds NaN, inf or numbers whose product could overflow.
        blocks: a plain call on a processor, of so many queries × keys that blocks pay.
        bias_learned: the bias needs a gradient.
        ragged: the mask is lengths, perhaps with a causal one, and nothing else.
        windowed: it is a window that hides most, and nothing else.
        loop: a compiled loop takes calls like this one, if its score and normalizer allow.
    """

    score: str
    is_dot: bool
    is_linear: bool
    additive: str | None
    rows: bool
    in_a_loop: bool
    normalizer: str
    is_softmax: bool
    has_value: bool
    refocused: bool
    dropout: float
    empty: bool
    transformed: bool
    unsafe: bool
    blocks: bool
    bias_learned: bool
    ragged: bool
    windowed: bool
    loop: bool


@dataclass(frozen=True)
class Choice:
    """A path and the reasons for it, in words."""

    path: Path
    reasons: tuple[str, ...]


def choose(facts: Facts) -> Choice:
    """The fastest path that gives this call's numbers."""
    against = []
    if not facts.has_value:
        against.append("there is no value: the weights are the answer")
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
    if facts.is_linear and facts.dropout == 0 and not against:
        return Choice("linear", ("a product of feature maps normalised by its sum is read without queries × keys",))
    if facts.additive is not None:
        taken = "weighed and read as they are made" if facts.in_a_loop else "made for some queries at a time"
        parts = (f"there are many weights: they are {taken}",) if facts.rows else ()
        return Choice("additive", (f"the score {facts.score!r} is made {facts.additive}", *parts))
    if not facts.is_dot:
        against.append(f"the score {facts.score!r} is not a dot product")
    if not facts.is_softmax:
        against.append(f"the normalizer {facts.normalizer!r} is not softmax with a fixed temperature")
    if against:
        return Choice("explicit", tuple(against))
    if facts.loop:
        told = "is read tile by tile, in a loop compiled for this processor"
        return Choice("compiled", (f"{facts.score!r} with softmax {told}",))
    computes = f"{facts.score!r} with softmax is what scaled_dot_product_attention computes"
    if facts.blocks and (facts.dropout > 0 or facts.bias_learned):
        slow = "dropout= is above 0" if facts.dropout > 0 else "bias= needs a gradient"
        return Choice("blocked", (f"{computes}, but {slow}, where it would keep queries × keys",))
    if facts.blocks and facts.ragged:
        return Choice("ragged", (computes, "the mask is lengths: each item is computed with its own keys"))
    if facts.blocks and facts.windowed:
        return Choice("windowed", (computes, "the mask is a window: a block of queries meets its own keys alone"))
    return Choice("fused", (computes,))
