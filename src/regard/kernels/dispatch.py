"""Which path a call takes, and why: one function from the facts of a call to the name of a path.

The paths give the same numbers. "explicit" forms every weight and can do everything; "fused" is
`scaled_dot_product_attention`; "linear" never forms queries × keys; "additive" makes an additive score without its
table of pairs × hidden units, and goes on as "explicit" does.
"""

from dataclasses import dataclass
from typing import Literal

Path = Literal["explicit", "fused", "linear", "additive"]


@dataclass(frozen=True)
class Facts:
    """What the choice depends on.

    Attributes:
        score: the score's name, for the reason given.
        is_dot: the score is a dot product of two prepared sides.
        is_linear: the score is a product of feature maps and the normalizer their sum, under a mask that path knows.
        additive: how pairs of an additive score are made in blocks, in words; None where they are not.
        normalizer: the normalizer's name.
        is_softmax: it is softmax with a fixed temperature.
        has_value: there is something to read; without it the weights are the answer.
        refocused: weights are changed after they were normalised.
        dropout: the rate.
        empty: an axis has size 0.
        transformed: inside vmap, jvp and the like, which the fused kernels do not know.
        unsafe: something hidden holds NaN, inf or numbers whose product could overflow.
    """

    score: str
    is_dot: bool
    is_linear: bool
    additive: str | None
    normalizer: str
    is_softmax: bool
    has_value: bool
    refocused: bool
    dropout: float
    empty: bool
    transformed: bool
    unsafe: bool


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
    if facts.dropout > 0:
        against.append("dropout= is above 0")
    if facts.empty:
        against.append("an axis has size 0")
    if facts.transformed:
        against.append("inside vmap, jvp or forward-mode differentiation")
    if facts.unsafe:
        against.append("something masked out is NaN, inf or huge, and is kept from the answer step by step")
    if facts.is_linear and not against:
        return Choice("linear", ("a product of feature maps normalised by its sum is read without queries × keys",))
    if facts.additive is not None:
        made = "of two exponentials, a product and a division for each pair"
        return Choice("additive", (f"the score {facts.score!r} is made {made}, {facts.additive}",))
    if not facts.is_dot:
        against.append(f"the score {facts.score!r} is not a dot product")
    if not facts.is_softmax:
        against.append(f"the normalizer {facts.normalizer!r} is not softmax with a fixed temperature")
    if against:
        return Choice("explicit", tuple(against))
    return Choice("fused", (f"{facts.score!r} with softmax is what scaled_dot_product_attention computes",))
