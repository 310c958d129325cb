"""The warning that a call falls to memory of queries × keys: what causes it, and what to do."""

import math
import warnings

from regard.attention.call.call import Call
from regard.attention.call.mask_summary import conjuncts
from regard.attention.cost.workload import drawn_bools
from regard.attention.parts.mask_kinds import Keep
from regard.attention.paths.base import Path
from regard.errors import SlowPathWarning

LARGE = 2**28
"""Bytes of all weights at once from which on a path that forms them is worth a warning."""

LEAST = 2**12
"""Queries × keys of a head below which no call is that large, unless it has 2¹⁴ heads: not worth a question."""

# What to do about a reason, by the words that it begins with.
_MENDED = {
    "the score or the normalizer has hooks": "Hook the whole attention, or give it some queries at a time",
    "refocus=": "Give it some queries at a time, or leave it out",
    "dropout=": "Leave it out, or call outside autocast and torch.func on a CPU, where it is taken in blocks",
    "inside vmap": "Call it on a batch instead of inside the transform",
    "something masked": "Clear what is masked out before the call (a NaN or inf among padding, say)",
    "the normalizer": "Softmax with a number as temperature needs none of it; with others take some queries at a time",
    "the score": "Dot products, general, cosine and additive need none of it; with others take some queries at a time",
    "mask=": "causal, padding and window, each or joined by &, need no drawing where a native loop serves",
}
_warned: set[str] = set()


def warn_of_memory(path: Path, call: Call, *, stacklevel: int) -> None:
    """Say, once for each reason, that a call falls to memory of queries × keys, what causes it and what to do.

    Nothing is said of weights that take less than `LARGE` bytes, nor of a pointer (its weights are the answer).

    Args:
        path: the one that the call takes.
        call: a checked one.
        stacklevel: of `warnings.warn`: how far up the caller of `attend` is.
    """
    if math.prod(call.sizes) * 4 < LARGE or call.value is None:
        return
    reasons = tuple(path.holds(call))
    if reasons:
        shape = " × ".join(f"{size:,}" for size in call.sizes)
        weights = _mebibytes(math.prod(call.sizes) * max(4, call.query.element_size()))
        takes = (
            f"{weights} MiB of weights (batch × heads × queries × keys = {shape}) are formed, and about "
            f"{_mebibytes(path.cost(call).bytes_with_gradients)} MiB held at the peak with gradients"
        )
    else:
        bools = _bools(path, call)
        reasons = (f"mask= is drawn: {call.mask}",) if bools >= LARGE else ()
        takes = f"{_mebibytes(bools)} MiB of bools are drawn"
    for reason in reasons:
        if reason not in _warned:
            _warned.add(reason)
            advice = next((advice for words, advice in _MENDED.items() if reason.startswith(words)), None)
            said = (
                f"{reason}: {takes}. {advice or 'Take some queries at a time'}. regard.explain(…, cost=True) predicts"
            )
            warnings.warn(f"{said} a call; this is said once", SlowPathWarning, stacklevel=stacklevel)


def _bools(path: Path, call: Call) -> int:
    """Those of a mask that has to be drawn; a tensor of the caller's own is there already."""
    own = any(isinstance(mask, Keep) for mask in conjuncts(call.mask))
    return 0 if own else drawn_bools(call, path.table(call))


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f}"
