"""What an answer may be made of, whatever the points are: which choices are open at each step.

Choice 0 ends an answer, choice n is the n-th point. A choice that is not open has probability exactly 0, in training
as in use. Some choice is always open.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import ConfigError, nearest

RuleState = dict[str, Tensor]
"""What a rule remembers of an answer so far: tensors, batch first."""


class Sets(NamedTuple):
    """What a rule knows of the points, and keeps for all steps.

    Attributes:
        real: which choices are points of the set; neither the end nor padding.
        rank: from left to right, 0 the leftmost, of the choices that are points.
    """

    real: Bool[Tensor, "batch choices"]
    rank: Int[Tensor, "batch choices"]

    @staticmethod
    def of(points: Float[Tensor, "batch points axes"], lengths: Int[Tensor, " batch"]) -> "Sets":
        """What a rule knows of sets of points; padding may hold anything."""
        places = torch.arange(points.shape[1], device=points.device)
        real = places < lengths[:, None]
        # Sorted by the last axis first, then stably by the ones before it; padding comes last.
        order = places.expand(real.shape)
        for axis in reversed(points.unbind(-1)):
            order = order.gather(1, axis.gather(1, order).argsort(dim=1, stable=True))
        order = order.gather(1, (~real).gather(1, order).long().argsort(dim=1, stable=True))
        rank = order.argsort(dim=1)
        return Sets(torch.nn.functional.pad(real, (1, 0)), torch.nn.functional.pad(rank, (1, 0), value=-1))


@runtime_checkable
class Rule(Protocol):
    """Three functions without a state of their own."""

    def start(self, sets: Sets) -> RuleState:
        """Before the first choice."""
        ...

    def after(self, sets: Sets, state: RuleState, choice: Int[Tensor, " batch"]) -> RuleState:
        """After a choice; 0, which begins and ends an answer, changes nothing."""
        ...

    def open(self, sets: Sets, state: RuleState) -> Bool[Tensor, "batch choices"]:
        """Which choices may come next."""
        ...


class AtMostOnce:
    """Each point once or not at all; some must come before the end.

    Args:
        least: how many; fewer where a set has fewer.
    """

    def __init__(self, least: int) -> None:
        self.least = least

    def start(self, sets: Sets) -> RuleState:
        """Every point may still be chosen."""
        return {"left": sets.real}

    def after(self, sets: Sets, state: RuleState, choice: Int[Tensor, " batch"]) -> RuleState:
        """The chosen point may not be chosen again."""
        return {"left": state["left"].scatter(1, choice[:, None], False)}

    def open(self, sets: Sets, state: RuleState) -> Bool[Tensor, "batch choices"]:
        """The points that were not chosen yet, and the end once `least` were."""
        chosen = (sets.real & ~state["left"]).sum(1)
        return _with_end(state["left"], (chosen >= self.least) | ~state["left"].any(1))


class EachOnce(AtMostOnce):
    """Each point exactly once: the end is open when all are chosen, and not before."""

    def __init__(self) -> None:
        super().__init__(torch.iinfo(torch.int64).max)


class Triangles:
    """Three corners at a time, from left to right, each triangle behind the one before it; the end after any of them.

    Triangles are in the order of their corners' ranks, so none can come twice. There are 2n − 5 at most, as many as a
    triangulation of n points can have (Euler); after them only the end is open, so that no answer is cut in a triangle.
    """

    def start(self, sets: Sets) -> RuleState:
        """No corner yet."""
        corners = torch.zeros(len(sets.real), dtype=torch.long, device=sets.real.device)
        none = corners.new_full((len(corners), 3), -1)
        return {"corners": corners, "now": none, "before": none}

    def after(self, sets: Sets, state: RuleState, choice: Int[Tensor, " batch"]) -> RuleState:
        """One corner more; the third closes a triangle."""
        chosen = choice > 0
        place = torch.arange(3, device=choice.device) == (state["corners"] % 3)[:, None]
        now = torch.where(place & chosen[:, None], sets.rank.gather(1, choice[:, None]), state["now"])
        corners = state["corners"] + chosen
        whole = (chosen & (corners % 3 == 0))[:, None]
        return {"corners": corners, "now": now, "before": torch.where(whole, now, state["before"])}

    def open(self, sets: Sets, state: RuleState) -> Bool[Tensor, "batch choices"]:
        """The points that keep corners and triangles in order, and the end after a whole triangle."""
        place, count = state["corners"] % 3, sets.real.sum(1)
        (first, second, _), (first_before, second_before, third_before) = (
            state[name].unbind(1) for name in ("now", "before")
        )
        # The least rank that each corner may have: right of the one before, and behind the triangle before.
        same = first == first_before
        at_end = third_before == count - 1
        last_pair = at_end & (second_before == count - 2)
        least = torch.stack(
            [
                first_before + last_pair,
                torch.maximum(first + 1, torch.where(same, second_before + at_end, 0)),
                torch.maximum(second + 1, torch.where(same & (second == second_before), third_before + 1, 0)),
            ],
            dim=1,
        ).gather(1, place[:, None])
        # As many points further right must be left as the triangle still needs.
        free = sets.real & (sets.rank >= least) & (sets.rank < (count - 2 + place)[:, None])
        free = free & (state["corners"] < 3 * (2 * count - 5))[:, None]
        return _with_end(free, (place == 0) & ((state["corners"] > 0) | (count < 3)))


RULES: dict[str, Rule] = {"each_once": EachOnce(), "at_most_once": AtMostOnce(3), "triangles": Triangles()}


def rule_of(name: str) -> Rule:
    """The rule of that name.

    Raises:
        ConfigError: there is none; with the nearest name.
    """
    if name not in RULES:
        raise ConfigError(f"no rule of pointing is named {name!r}.{nearest(name, RULES)}")
    return RULES[name]


def _with_end(choices: Tensor, ends: Tensor) -> Tensor:
    return torch.cat([ends[:, None], choices[:, 1:]], dim=1)
