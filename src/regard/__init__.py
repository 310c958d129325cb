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
    "explain": "regard.attention.attend",
    "score": "regard.attention.attend",
    "normalizer": "regard.attention.attend",
    "position": "regard.attention.position",
    "preset": "regard.attention.presets",
    "record": "regard.attention.record",
    "family": "regard.attention.family",
    "MultiHeadAttention": "regard.attention.multihead",
    "LocalAttention": "regard.attention.local",
    "LearnedQueries": "regard.attention.pooling",
    "linear_attention": "regard.attention.linear",
    "positions": "regard.attention.position",
    "load": "regard.tasks.load",
    "ensemble": "regard.tasks.ensemble",
}
_ROOMS = {"errors": "regard.errors", "masks": "regard.attention.masks", "refocus": "regard.attention.refocus"}

__all__ = [*_HOME, *_ROOMS, "__version__"]

if TYPE_CHECKING:
    from regard import errors as errors
    from regard.attention import masks as masks
    from regard.attention import refocus as refocus
    from regard.attention.attend import Attended as Attended
    from regard.attention.attend import Attention as Attention
    from regard.attention.attend import attend as attend
    from regard.attention.attend import explain as explain
    from regard.attention.family import family as family
    from regard.attention.linear import linear_attention as linear_attention
    from regard.attention.local import LocalAttention as LocalAttention
    from regard.attention.multihead import MultiHeadAttention as MultiHeadAttention
    from regard.attention.normalize import normalizer as normalizer
    from regard.attention.pooling import LearnedQueries as LearnedQueries
    from regard.attention.position import position as position
    from regard.attention.position import positions as positions
    from regard.attention.presets import preset as preset
    from regard.attention.record import record as record
    from regard.attention.score import score as score
    from regard.tasks.ensemble import ensemble as ensemble
    from regard.tasks.load import load as load


def __getattr__(name: str) -> Any:
    if name in _HOME:
        globals()[name] = found = getattr(import_module(_HOME[name]), name)  # the next time nothing is asked
        return found
    if name in _ROOMS:
        return import_module(_ROOMS[name])
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
