"""Two directions of alignment made one (Och & Ney 2003, § 4.1; Koehn et al. 2003)."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from regard.data.pairs import Link

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def intersection(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """Links that both directions agree on: precise. Both are given as (source, target)."""
    return frozenset(forward & backward)


def union(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """Links that either direction has: complete."""
    return frozenset(forward | backward)


def grow_diag_final(forward: AbstractSet[Link], backward: AbstractSet[Link]) -> frozenset[Link]:
    """From the intersection grow into the union: first to neighbours, diagonal ones included, that bring a new word;
    then add whatever remaining link of either direction brings a new word, the forward ones first.
    """
    every = forward | backward
    aligned = set(forward & backward)
    sources = {source for source, _ in aligned}
    targets = {target for _, target in aligned}

    def add(candidates: list[Link]) -> bool:
        grown = False
        for source, target in candidates:
            if (source, target) not in aligned and (source not in sources or target not in targets):
                aligned.add((source, target))
                sources.add(source)
                targets.add(target)
                grown = True
        return grown

    def around() -> list[Link]:
        near = [(source + down, target + right) for source, target in sorted(aligned) for down, right in _NEIGHBOURS]
        return [link for link in near if link in every]

    while add(around()):
        pass
    add(sorted(forward))
    add(sorted(backward))
    return frozenset(aligned)


SYMMETRIZATIONS: dict[str, Callable[[AbstractSet[Link], AbstractSet[Link]], frozenset[Link]]] = {
    "intersection": intersection,
    "union": union,
    "grow-diag-final": grow_diag_final,
}
