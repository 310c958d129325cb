"""All paths, the fastest first; a call takes the first that has nothing against it."""

from regard.attention.call.call import Call
from regard.attention.paths.additive import Additive
from regard.attention.paths.base import Path
from regard.attention.paths.blocked import Blocked
from regard.attention.paths.chunked import Chunked
from regard.attention.paths.explicit import Explicit
from regard.attention.paths.flex import Flex
from regard.attention.paths.fused import Fused
from regard.attention.paths.linear import Linear
from regard.attention.paths.local import Local
from regard.attention.paths.native import Native
from regard.attention.paths.projected import Projected
from regard.attention.paths.ragged import Ragged
from regard.attention.paths.windowed import Windowed

PATHS: tuple[Path, ...] = (
    Linear(),
    Local(),
    Additive(),
    Projected(),
    Native(),
    Blocked(),
    Ragged(),
    Windowed(),
    Flex(),
    Fused(),
    Chunked(),
    Explicit(),
)


def choose(call: Call) -> Path:
    """The first path that has nothing against the call; the last one takes all."""
    # A comparison would tie a traced call to its sizes; no path that asks for many takes one.
    kind, pairs = type(call.score), 0 if call.traced else call.sizes.queries * call.sizes.keys
    for path in PATHS[:-1]:
        # Most paths are passed over without a question: small calls are short of time.
        if pairs < path.least or (path.for_dots and not call.is_dot):
            continue
        if path.scores is None or kind in path.scores:
            for _ in path.against(call):
                break
            else:
                return path
    return PATHS[-1]


def against_faster(call: Call, path: Path) -> dict[str, tuple[str, ...]]:
    """What speaks against each path that is faster than this one, by name."""
    return {faster.name: tuple(faster.reasons(call)) for faster in PATHS[: PATHS.index(path)]}
