"""Alignments as text: one line per sentence, "1-2" a sure link and "1p2" a possible one, source word first."""

import os
import re
from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from regard.data.pairs.parallel_text import Link, Pair
from regard.data.settings import WordUnit
from regard.data.text.lines import read_lines
from regard.data.text.units import split_words
from regard.errors import DataError, quoted

_LINK = re.compile(r"([0-9]{1,18})([-p])([0-9]{1,18})")


class Gold(NamedTuple):
    """The gold links of one sentence, counted from 0; `possible` holds the sure ones too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def parse_pharaoh(line: str, *, first: int, origin: str = "alignment") -> Gold:
    """The links of one line.

    Args:
        line: e.g. "1-1 2-3 2p4"; an empty line has no links.
        first: the number of the first word in this file, 0 or 1; the text does not show it.
        origin: what the line is called in errors, e.g. "file, line 3".

    Raises:
        DataError: something that is no link, or a word before the first.
    """
    if first not in (0, 1):
        raise ValueError(f"first is the number of the first word, 0 or 1; given {first}")
    sure, possible = set(), set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise DataError(f'{origin}: {quoted(text)} is no link; expected "1-2" (sure) or "1p2" (possible)')
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise DataError(
                f"{origin}: {text!r} names word 0, but words are said to be counted from 1; if they are counted from "
                "0, say so (--links-from 0, or links_from=0)"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def read_pharaoh(path: str | os.PathLike[str], *, first: int) -> list[Gold]:
    """The links of each line of a file; see `parse_pharaoh`. Errors name file and line."""
    return [
        parse_pharaoh(line, first=first, origin=f"{path}, line {number}")
        for number, line in enumerate(read_lines(path), start=1)
    ]


def with_links(
    pairs: Sequence[Pair], path: str | os.PathLike[str], *, first: int, counted: WordUnit, target_first: bool = False
) -> list[Pair]:
    """Pairs with the true links of a file beside them.

    Args:
        pairs: any pairs.
        path: a file with a line of links for each pair; see `parse_pharaoh`.
        first: the number of the first word in it, 0 or 1.
        counted: what its numbers count.
        target_first: its links name the target word first.

    Raises:
        DataError: a line holds what is no link, or a word that its pair does not have; or the numbers of lines differ.
    """
    every = read_pharaoh(path, first=first)
    if len(every) != len(pairs):
        raise DataError(
            f"{path} has {len(every)} lines, but there are {len(pairs)} pairs; one line of links per pair is needed"
        )
    linked = []
    for number, (pair, gold) in enumerate(zip(pairs, every, strict=True), start=1):
        sure, possible = ((_turned(side) if target_first else side) for side in gold)
        for name, text, highest in (
            ("source", pair.source, max((source for source, _ in possible), default=-1)),
            ("target", pair.target, max((target for _, target in possible), default=-1)),
        ):
            if highest >= 0 and highest >= (count := len(split_words(text, counted))):
                raise DataError(
                    f"{path}, line {number}: a link names {name} word {highest + first}, but the {name} has {count} "
                    f"words, counted from {first} as {counted} ({pair.place}); do the links count from another number "
                    "(links_from), other words (links_words: whitespace or tokenizer), or the target first "
                    "(links_reversed)?"
                )
        linked.append(replace(pair, links=sure, possible=possible, counted=counted))
    return linked


def _turned(links: frozenset[Link]) -> frozenset[Link]:
    return frozenset((source, target) for target, source in links)


def format_pharaoh(sure: AbstractSet[Link], possible: Iterable[Link] = (), *, first: int = 0) -> str:
    """One line of text, links in order; possible links that are also sure are written as sure."""
    every = sorted(sure | set(possible))
    return " ".join(f"{one + first}{'-' if (one, two) in sure else 'p'}{two + first}" for one, two in every)
