"""The one way of every attention: choose the path of a call, keep masked-out NaN out of it, and run it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from regard.attention.attended import Attended, Source
from regard.attention.call import guard
from regard.attention.call.call import Call
from regard.attention.call.mask_summary import drawn_already
from regard.attention.call.recompute import Recompute
from regard.attention.cost.warning import LEAST, warn_of_memory
from regard.attention.parts.score_base import Prepared
from regard.attention.paths.base import Path
from regard.attention.paths.choose import choose
from regard.kernels.dot import dropout_mask

Observer = Callable[[Path, Call, bool], None]
"""Told of each call: its path, the call as the path took it, and whether its content was cleaned first."""

_observers: list[Observer] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Within this context the observer is told of each call of every attention."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def run(call: Call, at_once: bool = False, top: int | None = None) -> Attended:
    """Take the path of a call.

    Args:
        call: the checked call.
        at_once: make the weights now; the context is the same either way.
        top: make the statistics of the weights now, with this many of each query's largest.
    """
    path = choose(call)
    if call.dropout > 0 and path.draws_dropout and not call.query.is_meta:
        # Before anything is known of the call's content: the draws are the same whichever path it takes then.
        call = call._replace(seed=dropout_mask.new_seed())
    if not (at_once or call.traced) and call.sizes.queries * call.sizes.keys >= LEAST:
        warn_of_memory(path, call, stacklevel=4)
    if call.mask is None or call.own or path.keeps_nan_out:
        attended = _run(path, call, top) or _run_plainly(call, top)
    else:
        attended = _run_under_mask(path, call, top)
    if top is not None:
        attended.statistics(top)  # it keeps them
    if call.traced and not at_once:
        # A graph cannot carry the recipe of its weights out; what is held already may leave.
        return Attended(attended.context, weights=attended._weights, log_prob=attended.log_prob)
    if at_once:
        return Attended(
            attended.context,
            weights=attended.weights,
            log_weights=attended.log_weights,
            log_prob=attended.log_prob,
            statistics=attended._statistics,
        )
    return attended


def planned(call: Call) -> tuple[Path, Call, bool]:
    """The path that a call takes, the call with what was found of its content, and whether that is cleaned first."""
    path = choose(call)
    if call.mask is None or path.keeps_nan_out:
        return path, call, False
    if not call.is_readable():
        return path, call, True  # nothing can be found out now, so it is always cleaned
    if call.is_safe():
        return path, call._replace(safe=True), False
    if path.checks_while_reading(call) and path.reads_safely(call):
        return path, call, False
    call = call._replace(safe=False)
    return choose(call), call, True


def _run(path: Path, call: Call, top: int | None, guarded: bool = False) -> Attended | None:
    attended = path.run(call, top)
    if attended is not None:
        for observer in _observers:
            observer(path, call, guarded)
    return attended


def _run_under_mask(path: Path, call: Call, top: int | None) -> Attended:
    """Run a path so that no masked-out NaN reaches an answer or a gradient."""
    if top is None and call.is_readable() and path.checks_while_reading(call):
        attended = _run(path, call, top)
        if attended is not None:
            return attended
    path, call, guarded = planned(call)
    attended = _run_guarded(path, call, top) if guarded else _run(path, call, top)
    return attended or _run_plainly(call, top)


def _run_plainly(call: Call, top: int | None) -> Attended:
    """Only what is made of a call shows that a parameter or a mask is of a class that no loop can read."""
    call = call._replace(plain=False, safe=None, seed=None)
    path = choose(call)
    if call.mask is None or call.own:
        attended = _run(path, call, top)
        assert attended is not None
        return attended
    return _run_under_mask(path, call, top)


def _run_guarded(path: Path, call: Call, top: int | None) -> Attended | None:
    """Run a path on cleaned content, and give NaN to the queries that attend to what was not finite."""
    keep = call.draw()
    assert keep is not None
    query, compared, value, nonfinite = guard.guard(call.query, call.compared(), call.value, keep)
    mask, summary = drawn_already(keep)
    clean = call._replace(query=query, value=value, mask=mask, summary=summary)
    if call.prepared is None:
        clean = clean._replace(key=compared)
    else:
        clean = clean._replace(prepared=Prepared(call.prepared.key, compared))
    attended = _run(path, clean, top, guarded=True)
    return attended if attended is None else _with_nan(attended, nonfinite, keep, call)


def _with_nan(attended: Attended, nonfinite: Tensor, keep: Tensor, call: Call) -> Attended:
    context, weights, log_prob, source = attended.context, attended._weights, attended.log_prob, attended._source
    if isinstance(source, Recompute):
        source = source._replace(nonfinite=nonfinite)
    else:
        source = Source(
            lambda: guard.propagate_nan(attended.weights, nonfinite, keep),
            lambda: guard.propagate_nan(attended.log_weights, nonfinite, keep),
        )
    return Attended(
        None if context is None else guard.propagate_nan(context, nonfinite),
        weights=None if weights is None else guard.propagate_nan(weights, nonfinite, keep),
        log_prob=None if log_prob is None else guard.propagate_nan(log_prob.unsqueeze(-1), nonfinite).squeeze(-1),
        source=source,
    )
