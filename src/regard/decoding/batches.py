"""Many items through a model that takes batches: one result for each, in the order they came."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from regard.errors import ShapeError

Given = TypeVar("Given")
Result = TypeVar("Result")


def in_order(
    items: Iterable[Given],
    key: Callable[[Given], int],
    size: int,
    run: Callable[[list[Given]], Sequence[Result]],
    *,
    empty: Callable[[Given], Result],
    chunk: int | None = None,
) -> Iterator[Result]:
    """Run items in batches of like length and give the results in the order of the items, while they are being read.

    Args:
        items: read lazily, a chunk at a time, so a pipe without end works.
        key: an item's length; batches hold neighbours in it, long ones first, so that too large a batch fails at once.
        size: the most items in a batch.
        run: returns one result per item, in the order of its batch.
        empty: the result of an item of length 0, which is never run.
        chunk: how many items are read before the first result comes; by default 16 batches.

    Raises:
        ValueError: `size` or `chunk` is below 1.
        ShapeError: `run` gave another number of results than it was given items.
    """
    if size < 1 or (chunk is not None and chunk < 1):
        raise ValueError(f"size and chunk must be at least 1; given {size} and {chunk}")
    stream = iter(items)
    while read := list(islice(stream, chunk or 16 * size)):
        lengths = [key(item) for item in read]
        results = {at: empty(item) for at, item in enumerate(read) if lengths[at] == 0}
        order = sorted((at for at in range(len(read)) if lengths[at]), key=lambda at: (-lengths[at], at))
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            given = run([read[at] for at in batch])
            if len(given) != len(batch):
                raise ShapeError(f"a batch of {len(batch)} items gave {len(given)} results: expected one per item")
            results.update(zip(batch, given, strict=True))
        for at in range(len(read)):
            yield results[at]
