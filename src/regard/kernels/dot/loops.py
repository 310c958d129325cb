"""What the loops of dot products are given, for float32 and float64 (`dot.cpp`) and for half types (`dot_half.cpp`)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from regard.kernels.native.abi import Library
from regard.kernels.native.fields import INTEGER, REAL, THREADS, WORK, Counts, Input, Output


class Loops(NamedTuple):
    """A library and its loops; see `dot.py` for what they compute."""

    library: Library
    forward: Callable[..., None]
    backward: Callable[..., None]
    statistics: Callable[..., None]


def _declared(name: str, kinds: Sequence[torch.dtype], may_lack: Sequence[torch.dtype] = ()) -> Loops:
    library = Library(name, kinds, may_lack)
    of_pairs = ("batch", "heads", "queries", "keys")
    of_queries, of_keys = ("batch", "heads", "queries"), ("batch", "key_heads", "keys")
    call = library.structure(
        "DotCall",
        **dict.fromkeys(("batch", "heads", "key_heads", "queries", "keys", "dim", "value_dim"), INTEGER),
        threads=THREADS,
        unit=INTEGER,  # whether the processor's matrix unit may be used
        query_directions=INTEGER,  # whether queries, and keys, are divided by their lengths
        key_directions=INTEGER,
        offset=INTEGER,
        before=INTEGER,
        after=INTEGER,
        lengths=Counts("batch"),  # of keys, and of queries that attend to anything, the first ones
        query_lengths=Counts("batch"),
        dropped=INTEGER,
        seed=INTEGER,
        unsafe=Counts("1"),  # becomes 1 where numbers that were read are not safe
        scale=REAL,
        query=Input(*of_queries, "dim", view=True),
        key=Input(*of_keys, "dim", view=True),
        value=Input(*of_keys, "value_dim", view=True),
        keep=Input(*of_pairs, dtype=torch.bool, view=True, broadcast=True, optional=True),
        bias=Input(*of_pairs, dtype=WORK, view=True, broadcast=True, optional=True),
    )
    forward = library.loop(
        "dot_forward",
        call,
        context=Output(*of_queries, "value_dim"),
        normalizer=Output(*of_queries, dtype=WORK, optional=True),
    )
    backward = library.loop(
        "dot_backward",
        call,
        context=Input(*of_queries, "value_dim"),
        normalizer=Input(*of_queries, dtype=WORK),
        upstream=Input(*of_queries, "value_dim", view=True),
        to_query=Output(*of_queries, "dim", optional=True),
        to_key=Output(*of_keys, "dim", optional=True),
        to_value=Output(*of_keys, "value_dim", optional=True),
        to_bias=Output(*of_pairs, dtype=WORK, view=True, broadcast=True, optional=True),
        bias_size=INTEGER,
    )
    statistics = library.loop(
        "dot_statistics",
        call,
        context=Output(*of_queries, "value_dim", optional=True),
        top=INTEGER,
        entropy=Output(*of_queries, dtype=WORK),
        maximum=Output(*of_queries, dtype=WORK),
        received=Output("batch", "heads", "keys", dtype=WORK),
        top_weights=Output(*of_queries, "top", dtype=WORK),
        top_keys=Output(*of_queries, "top", dtype=torch.int64),
    )
    return Loops(library, forward, backward, statistics)


_WIDE = _declared("dot/dot", (torch.float32, torch.float64))
_HALF = _declared("dot/dot_half", (torch.bfloat16, torch.float16), may_lack=(torch.float16,))
_OF = {kind: loops for loops in (_WIDE, _HALF) for kind in loops.library.kinds}
KINDS = frozenset(_OF)


def of(kind: torch.dtype) -> Loops:
    """The loops for numbers of one of the `KINDS`."""
    return _OF[kind]


def serve(kind: torch.dtype) -> bool:
    """Whether the loops could be built for this type; some compilers know no float16."""
    return kind in KINDS and of(kind).library.serves(kind)
