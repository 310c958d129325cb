"""Which paths calls take, for tests: thresholds lowered all at once, and paths taken out of the list."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from regard.attention.call import mask_summary
from regard.attention.paths import blocked, choose, local, windowed
from regard.attention.paths.blocked import Blocked
from regard.attention.paths.flex import Flex
from regard.attention.paths.native import Native
from regard.attention.paths.ragged import Ragged
from regard.attention.paths.windowed import Windowed
from regard.kernels.additive import additive, attend as additive_attend
from regard.kernels.dot import dot
from regard.kernels.fallback import query_chunks

LOWERED = (
    *((path, {"least": 0}) for path in (Native, Blocked, Ragged, Windowed, Flex)),
    (blocked, {"LARGE": 0}),
    (windowed, {"_SPARE": -4}),
    (dot, {"_SIDE": 1, "_SIDE_DROPPED": 1, "_PAIRS": 1}),
    (additive, {"_LEAST": 1, "_LEAST_COMPILED": 1}),
    (additive_attend, {"LEAST": 1}),
    (query_chunks, {"MANY": 1, "PART": 29}),
    (local, {"_COPIES": 1.0}),
    (mask_summary, {"_LARGE": 1}),
)
"""From which sizes on the paths are worth it: each module's numbers, and what they are where every size will do."""


@contextmanager
def lowered() -> Iterator[None]:
    """Calls of any size take the paths of large ones."""
    with ExitStack() as stack:
        for module, numbers in LOWERED:
            stack.enter_context(patch.multiple(module, **numbers))
        yield


@contextmanager
def without(*names: str) -> Iterator[None]:
    """No call takes one of these paths."""
    known = {path.name for path in choose.PATHS}
    assert set(names) <= known, f"{sorted(set(names) - known)} are not among {sorted(known)}"
    with patch.object(choose, "PATHS", tuple(path for path in choose.PATHS if path.name not in names)):
        yield


@contextmanager
def only(name: str) -> Iterator[None]:
    """Calls take this path, or the explicit one where it has something against them."""
    with without(*(path.name for path in choose.PATHS if path.name not in (name, "explicit"))):
        yield
