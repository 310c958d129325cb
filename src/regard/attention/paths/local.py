"""The local path: a window around a position of each query, whose keys alone are scored and read."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attended import Attended
from regard.attention.call.call import Call, name_of
from regard.attention.call.checks import are_plain_tensors
from regard.attention.call.mask_summary import Lengths, conjuncts, joined
from regard.attention.call.windows import FARTHEST, attend_in_window, window_size
from regard.attention.cost.cost import LENGTH, Cost
from regard.attention.cost.workload import workload_of
from regard.attention.parts.focus import Focus
from regard.attention.parts.mask_kinds import Around, Mask
from regard.attention.parts.refocus import GaussianWindow
from regard.attention.parts.score import Additive, FeedForward, Location, LocationAware
from regard.attention.parts.score_base import Score
from regard.attention.paths.base import Path


class Local(Path):
    """Any normalizer over windows (`masks.around`), with Luong's Gaussian or without, on a processor."""

    name = "local"
    does = "the mask is a window around a position of each query: its keys alone are scored and read"

    def against(self, call: Call) -> Iterator[str]:
        """See `Path.against`."""
        found = None if call.summary.rest is None else _windows(call)
        if found is None:
            yield "the mask is not a window around a position of each query, with its Gaussian or none after it"
            return
        center, score, keys = found.center, call.score, call.sizes.keys
        if not (call.is_dot or type(score) in (Additive, LocationAware, Location, FeedForward)):
            yield f"the score {name_of(score)!r} may use keys beyond the window: it is called with all keys"
            return
        if call.query.ndim != 3:
            yield "the query has heads"
        if not (call.is_plain() and call.query.is_cpu and center.is_cpu and _are_plain(call, center)):
            yield "windows alone are for plain tensors on a processor, outside of autocast"
        if not (call.query.numel() and call.key.numel()):
            yield "an axis has size 0"
        if call.hooked:
            yield "the score or the normalizer has hooks: they are called once, with all keys"
        if keys > FARTHEST:
            yield f"centers are not exact enough for {keys} keys"
        if center.shape != call.query.shape[:2]:
            yield "the centers are not one for each query"
        if isinstance(score, Additive) and not _is_worth_copies(call.sizes.queries, found.radius, keys):
            yield "additive scores of all keys take less time than a copy of the window for each query"
        if call.safe is False:
            yield "something that a query attends to is not finite, and is kept from the answer step by step"

    def table(self, call: Call) -> Mask | None:
        """What masks out beside the windows and the lengths."""
        found = _windows(call)
        return call.mask if found is None else found.rest

    def checks_while_reading(self, call: Call) -> bool:
        """It reads the keys of windows alone."""
        return True

    def reads_safely(self, call: Call) -> bool:
        """Whether it gives an answer."""
        return self.run(call, None) is not None

    def run(self, call: Call, top: int | None) -> Attended | None:
        """See `Path.run`."""
        found = _windows(call)
        assert found is not None
        lengths = torch.tensor(found.lengths or (call.sizes.keys,) * call.sizes.batch)
        return attend_in_window(call, Focus(found.center, found.radius, found.sigma, lengths), found.rest)

    def cost(self, call: Call) -> Cost:
        """The weights of windows are held, with what is summed of them."""
        work, found = workload_of(call), _windows(call)
        assert found is not None
        sizes = call.sizes
        window = window_size(found.radius, sizes.keys)
        pairs = sizes.batch * sizes.queries * window
        made = pairs * (work.compared + work.value_width) + work.prepared
        table = pairs * work.compared if work.table else 0  # of an additive score, whose windows are copied
        held = (10 * pairs + 2 * table + work.made) * work.wide + work.context * work.given
        return Cost(
            self.name,
            2 * made,
            6 * made,
            held,
            2 * held + work.gradients,
            "queries × window × width",
            f"queries × window × {'hidden units' if table else '1'}, and {LENGTH}",
        )


class _Windows(NamedTuple):
    """What the windows of a call are made of (see `Focus`), and what else masks out."""

    center: Tensor
    radius: float
    sigma: float
    lengths: tuple[int, ...] | None
    rest: Mask | None


def _windows(call: Call) -> _Windows | None:
    """The windows of a call; None where its mask and what follows the normalizer say more than windows."""
    window, lengths, rest = None, None, []
    for part in conjuncts(call.mask):
        if window is None and isinstance(part, Around):
            window = part
        elif lengths is None and isinstance(part, Lengths):
            lengths = part.known
        else:
            rest.append(part)
    if window is None or not isinstance(window.center, Tensor):
        return None
    sigma: float | Tensor = 0.0
    if call.refocus:
        step = call.refocus[0]
        if len(call.refocus) > 1 or type(step) is not GaussianWindow or step.center is not window.center:
            return None
        sigma = step.sigma
    if isinstance(sigma, Tensor):
        return None
    return _Windows(window.center, window.radius, sigma, lengths, joined(rest))


def _are_plain(call: Call, center: Tensor) -> bool:
    score = call.score
    assert isinstance(score, Score)
    return are_plain_tensors(center, *(score.parameters() if score._modules else score._parameters.values()))


def _is_worth_copies(queries: int, radius: float, keys: int) -> bool:
    """Whether additive scores of windows that are copied side by side are faster than those of all keys, as measured.

    All keys' exponentials serve all queries, those of a copy its query alone.
    """
    return keys >= window_size(radius, keys) * min(_COPIES, 2.5 + queries / 2)


_COPIES = 20.0  # so many times the keys of a window cost no more than a copy of it
