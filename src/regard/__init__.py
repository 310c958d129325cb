"""regard: attention, the whole family. Score, normalize, refocus, read.

Names are imported on first use, so that the command line starts without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "attend": "regard.attention.attend",
    "Attended": "regard.attention.attend",
    "Attention": "regard.attention.attend",
    "explain": "regard.attention.explain",
    "score": "regard.attention.attend",
    "normalizer": "regard.attention.attend",
    "position": "regard.attention.parts.position_factory",
    "preset": "regard.attention.modules.presets",
    "record": "regard.attention.record",
    "family": "regard.attention.family.family",
    "MultiHeadAttention": "regard.attention.modules.multihead",
    "LocalAttention": "regard.attention.modules.local",
    "LearnedQueries": "regard.attention.modules.pooling",
    "linear_attention": "regard.attention.modules.linear",
    "positions": "regard.attention.parts.position",
    "load": "regard.tasks.core.load",
    "ensemble": "regard.tasks.translation.ensemble",
}
_ROOMS = {
    "errors": "regard.errors",
    "masks": "regard.attention.parts.masks",
    "refocus": "regard.attention.parts.refocus",
}

__all__ = [*_HOME, *_ROOMS, "__version__"]

if TYPE_CHECKING:
    from regard import errors as errors
    from regard.attention.attend import (
        Attended as Attended,
        Attention as Attention,
        attend as attend,
    )
    from regard.attention.explain import explain as explain
    from regard.attention.family.family import family as family
    from regard.attention.modules.linear import linear_attention as linear_attention
    from regard.attention.modules.local import LocalAttention as LocalAttention
    from regard.attention.modules.multihead import MultiHeadAttention as MultiHeadAttention
    from regard.attention.modules.pooling import LearnedQueries as LearnedQueries
    from regard.attention.modules.presets import preset as preset
    from regard.attention.parts import masks as masks, refocus as refocus
    from regard.attention.parts.normalize import normalizer as normalizer
    from regard.attention.parts.position import positions as positions
    from regard.attention.parts.position_factory import position as position
    from regard.attention.parts.score import score as score
    from regard.attention.record import record as record
    from regard.tasks.core.load import load as load
    from regard.tasks.translation.ensemble import ensemble as ensemble


def __getattr__(name: str) -> Any:
    if name in _HOME:
        globals()[name] = found = getattr(import_module(_HOME[name]), name)  # the next time nothing is asked
        return found
    if name in _ROOMS:
        return import_module(_ROOMS[name])
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
