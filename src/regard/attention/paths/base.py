"""A path: one way to compute a call, what speaks against it, and what it costs."""

from collections.abc import Iterator
from typing import ClassVar

from regard.attention.attended import Attended
from regard.attention.call.call import Call, name_of
from regard.attention.cost.cost import Cost
from regard.attention.parts.mask_kinds import Mask
from regard.attention.parts.score_base import Score, scores


class Path:
    """All paths give the same numbers; each takes the calls that it has nothing against.

    Class attributes:
        name: what `explain` calls it.
        scores: the kinds of score that it is for, and no subclass of them; None for any.
        for_dots: whether it is for dot products alone, of any kind.
        least: how many queries × keys of a head make it worth a question.
        does: what it does with a call, in words.
        keeps_nan_out: whether it keeps masked-out NaN from the answer by itself; else `run.py` does so around it.
        draws_dropout: whether its dropout is drawn by a loop of ours, from the call's seed.
    """

    name: ClassVar[str]
    scores: ClassVar[tuple[type[Score], ...] | None] = None
    for_dots: ClassVar[bool] = False
    least: ClassVar[int] = 0
    does: ClassVar[str]
    keeps_nan_out: ClassVar[bool] = False
    draws_dropout: ClassVar[bool] = False

    def against(self, call: Call) -> Iterator[str]:
        """Why it can't take the call, or why another is faster, in words; nothing: it takes it.

        Who only asks whether it takes the call stops at the first, so what is quickly known comes first. It is asked
        of calls that `scores`, `for_dots` and `least` let pass.
        """
        raise NotImplementedError

    def reasons(self, call: Call) -> Iterator[str]:
        """All that speaks against it."""
        if self.scores is not None and type(call.score) not in self.scores:
            kinds = " or ".join(repr(name) for name in scores if scores.maker(name) in self.scores)
            yield f"the score {name_of(call.score)!r} is not {kinds}"
            return
        if self.for_dots and not call.is_dot:
            yield f"the score {name_of(call.score)!r} is not a dot product"
        if call.sizes.queries * call.sizes.keys < self.least:
            yield f"it is for {self.least:,} queries × keys of a head and more"
        yield from self.against(call)

    def does_with(self, call: Call) -> str:
        """What it does with this call, in words."""
        return self.does

    def table(self, call: Call) -> Mask | None:
        """What of the mask the path must be given as a table of queries × keys."""
        return call.mask

    def checks_while_reading(self, call: Call) -> bool:
        """Whether `run` finds by itself that something which it read is not finite, and then returns None."""
        return False

    def reads_safely(self, call: Call) -> bool:
        """Whether all that it would read is finite; asked only where it `checks_while_reading`."""
        return False

    def holds(self, call: Call) -> Iterator[str]:
        """Why it holds all weights at once, in words; nothing where it does not."""
        return iter(())

    def run(self, call: Call, top: int | None) -> Attended | None:
        """The context, and how to make the weights that were not formed.

        Args:
            call: one that it has nothing against.
            top: statistics of the weights with so many of each query's largest are wanted as well.

        Returns:
            None where it can't take the call after all: something that it read is not finite, or a mask or a parameter
            is of a class whose numbers lie elsewhere.
        """
        raise NotImplementedError

    def cost(self, call: Call) -> Cost:
        """What the call would take, by its sizes alone."""
        raise NotImplementedError


def needs_all_weights(call: Call) -> Iterator[str]:
    """What can only be done where every weight is formed."""
    if call.value is None:
        yield "there is no value: the weights are the answer"
    if call.hooked:
        yield "the score or the normalizer has hooks: they are called"
    if call.refocus:
        yield "refocus= changes the weights after they are normalised"
    if not (call.query.numel() and call.key.numel()):
        yield "an axis has size 0"
    if call.mapped:
        yield "inside vmap, jvp or forward-mode differentiation"
    if call.safe is False:
        yield "something masked out is NaN, inf or huge, and is kept from the answer step by step"


def not_softmax(call: Call) -> str:
    """That the normalizer is another than a softmax that kernels know."""
    return f"the normalizer {name_of(call.normalizer)!r} is not softmax with a fixed temperature"
