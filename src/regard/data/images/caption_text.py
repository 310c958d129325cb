"""Captions of scenes, in English, French and Chinese.

The objects of a scene have an order (see the casts, `glyphs` and `emoji`): the first one is named first, then the
others, each with where the first one is relative to it. So every scene has one right caption.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from regard.data.images.settings import CaptionLanguage

Relation = Literal["above", "below", "left", "right"]


class Phrase(NamedTuple):
    """An object as it is named: "un " + "cœur" + " rouge"."""

    before: str
    name: str
    after: str = ""


class _Grammar(NamedTuple):
    relations: dict[Relation, tuple[str, str]]  # what stands before and after the second object
    also: str  # before a further relation


_GRAMMARS: dict[CaptionLanguage, _Grammar] = {
    "en": _Grammar(
        {
            "above": (" above ", ""),
            "below": (" below ", ""),
            "left": (" left of ", ""),
            "right": (" right of ", ""),
        },
        " and",
    ),
    "fr": _Grammar(
        {
            "above": (" au-dessus de ", ""),
            "below": (" en dessous de ", ""),
            "left": (" à gauche de ", ""),
            "right": (" à droite de ", ""),
        },
        " et",
    ),
    "zh": _Grammar(
        {"above": ("在", "上方"), "below": ("在", "下方"), "left": ("在", "左边"), "right": ("在", "右边")}, "，"
    ),
}

_VOWELS = "aàâeéèêëiîïoôœuùûü"
_MUTE = (
    "halt",
    "herb",
    "heur",
    "hibis",
    "hippo",
    "hiron",
    "homme",
    "hôpi",
    "horlo",
    "hôte",
    "huil",
    "huît",
    "hélic",
    "yeu",
)
"""Beginnings of French words that are said as if they began with a vowel: d’horloge, but de hibou."""


def caption(
    objects: Sequence[Phrase], relations: Sequence[Relation], language: CaptionLanguage
) -> tuple[str, list[tuple[int, int]]]:
    """A caption, and the characters of each object's name in it.

    Args:
        objects: in the order in which they are named.
        relations: of the first object to each of the others.
        language: of the words between.
    """
    grammar = _GRAMMARS[language]
    text, span = _said("", objects[0])
    spans = [span]
    for number, (other, relation) in enumerate(zip(objects[1:], relations, strict=True)):
        before, after = grammar.relations[relation]
        if language == "fr" and _is_elided("".join(other)):
            before = before.removesuffix("e ") + "’"
        text, span = _said(text + (grammar.also if number else "") + before, other)
        text += after
        spans.append(span)
    return text, spans


def _said(text: str, phrase: Phrase) -> tuple[str, tuple[int, int]]:
    start = len(text) + len(phrase.before)
    return text + "".join(phrase), (start, start + len(phrase.name))


def _is_elided(phrase: str) -> bool:
    return phrase[0].lower() in _VOWELS or phrase.lower().startswith(_MUTE)
