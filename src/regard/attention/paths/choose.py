"""All paths, the fastest first; a call takes the first that has nothing against it."""

from regard.attention.call.call import Call
from regard.attention.paths.additive import Additive
from regard.attention.paths.base import Path
from regard.attention.paths.blocked import Blocked
from regard.attention.paths.chunked import Chunked
from regard.attention.paths.explicit import Explicit
from regard.attention.paths.fused import Fused
from regard.attention.paths.linear import Linear
from regard.attention.paths.local import Local
from regard.attention.paths.native import Native
from regard.attention.paths.ragged import Ragged
from regard.attention.paths.windowed import Windowed

PATHS: tuple[Path, ...] = (
    Linear(),
    Local(),
    Additive(),
    Native(),
    Blocked(),
    Ragged(),
    Windowed(),
    Fused(),
    Chunked(),
    Explicit(),
)


def choose(call: Call) -> Path:
    """The first path that has nothing against the call; the last one takes all."""
    return next(path for path in PATHS if next(path.against(call), None) is None)


def against_faster(call: Call, path: Path) -> dict[str, tuple[str, ...]]:
    """What speaks against each path that is faster than this one, by name."""
    return {faster.name: tuple(faster.against(call)) for faster in PATHS[: PATHS.index(path)]}
