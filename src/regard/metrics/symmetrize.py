"""Alignments of two directions joined into one (Och & Ney 2003, § 4.1; Koehn, Och & Marcu 2003).

A forward link was chosen for a target word, a backward link for a source word; both are given as (source,
target).
"""

from bisect import insort
from collections.abc import Callable, Iterable, Set as AbstractSet

from regard.data.pairs.parallel_text import Link

# In steps of (target, source): the sides first, then the corners.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def intersection(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """Links that both directions agree on: precise."""
    return frozenset(forward & backward)


def union(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """Links that either direction has: complete."""
    return frozenset(forward | backward)


def grow_diag(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """From the intersection grow into the union, to neighbours, diagonal ones included, that bring a new word."""
    return _Growth(forward, backward).links()


def grow_diag_final(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """Grow; then add whatever remaining link brings a new word on either side, the forward ones first."""
    growth = _Growth(forward, backward)
    for links in (forward, backward):
        growth.add_remaining(links, both=False)
    return growth.links()


def grow_diag_final_and(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """Grow; then add whatever remaining link brings new words on both sides, the forward ones first."""
    growth = _Growth(forward, backward)
    for links in (forward, backward):
        growth.add_remaining(links, both=True)
    return growth.links()


class _Growth:
    """A set of links that grows, and the words that it has reached.

    Which links come in depends on the order in which neighbours are visited. It is that of Moses' `symal`, so that
    results agree link by link: target by target, source by source, a new link's neighbours being visited in the same
    round if it lies ahead.
    """

    def __init__(self, forward: AbstractSet[Link], backward: AbstractSet[Link]) -> None:
        self._aligned = set(forward & backward)
        self._sources = {source for source, _ in self._aligned}
        self._targets = {target for _, target in self._aligned}
        every = forward | backward
        before = -1
        while before < len(self._aligned):
            before = len(self._aligned)
            queue = sorted((target, source) for source, target in self._aligned)
            for place in queue:  # grows ahead of the place while it is traversed
                for down, right in _NEIGHBOURS:
                    target, source = near = place[0] + down, place[1] + right
                    new = source not in self._sources or target not in self._targets
                    if (source, target) in every and new:
                        self._add((source, target))
                        if near > place:
                            insort(queue, near)

    def add_remaining(self, links: Iterable[Link], *, both: bool) -> None:
        """Add links that bring a new word on one side, or on both."""
        for source, target in sorted(links, key=lambda link: (link[1], link[0])):
            fresh = source not in self._sources, target not in self._targets
            if all(fresh) if both else any(fresh):
                self._add((source, target))

    def links(self) -> frozenset[Link]:
        return frozenset(self._aligned)

    def _add(self, link: Link) -> None:
        self._aligned.add(link)
        self._sources.add(link[0])
        self._targets.add(link[1])


SYMMETRIZATIONS: dict[str, Callable[[AbstractSet[Link], AbstractSet[Link]], frozenset[Link]]] = {
    "intersection": intersection,
    "union": union,
    "grow-diag": grow_diag,
    "grow-diag-final": grow_diag_final,
    "grow-diag-final-and": grow_diag_final_and,
}
