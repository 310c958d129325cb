"""The built-in phrases: text of which the translation and the alignment are known, made on the spot.

A meaning of one to three clauses (a moment, a duration, a price, a number) is drawn, then worded in both languages.
English says the time before the date and the price before the goods, French the other way round, so that the
alignment is not monotone.
"""

import functools
from collections.abc import Callable
from datetime import date, time, timedelta
from typing import Any

from regard.data.chance import Chance
from regard.data.pairs.parallel_text import Pair
from regard.data.synthetic import wording
from regard.data.synthetic.links import Tags, chunk_links
from regard.data.synthetic.wording import LANGUAGES, Form, Span, Wording
from regard.data.text.units import units
from regard.errors import ConfigError, nearest

Meaning = tuple[str, tuple[Any, ...]]
Chunks = list[tuple[str, Wording]]


def phrases(count: int, seed: int = 0, source: str = "en", target: str = "fr") -> list[Pair]:
    """Make distinct phrases; the same seed gives the same ones on every machine.

    Args:
        count: how many.
        seed: draws the meanings, which are the same for any two languages.
        source: language read: en, fr, de, es or zh.
        target: language written, another of these.

    Returns:
        Pairs whose `links` join words that say the same (month and month, hour and hour), and whose `possible` also
        join what may be said to belong together: PM with the 19 of "19 h 30", all words of two number words that are
        built differently, and words that the grammar asks for wherever such a clause is said ("on", "le", "pour", "h",
        the comma of a date) with all of their clause.

    Raises:
        ConfigError: an unknown language, or the same one twice.
    """
    for language in (source, target):
        if language not in LANGUAGES:
            raise ConfigError(f"no built-in phrases in {language!r}.{nearest(language, LANGUAGES)}")
    if source == target:
        raise ConfigError(f"the built-in phrases translate between two languages; both are {source!r}")
    chance = Chance("phrases", seed)
    seen: set[tuple[Meaning, ...]] = set()
    pairs: list[Pair] = []
    while len(pairs) < count:
        meaning = _draw(chance)
        if meaning not in seen:
            seen.add(meaning)
            pairs.append(_pair(meaning, source, target, len(pairs) + 1))
    return pairs


# What is meant ------------------------------------------------------------------------------------------------------

# Numbers that end in 1 agree with the gender of what they count in French and Spanish ("vingt et une heures"), and the
# first of a month is "1er" in French; num2words and babel know neither, so these numbers are left out.
_COUNTS = tuple(number for number in range(2, 100) if number % 10 != 1)
_FIRST_DAY = date(1950, 1, 1)
_DAYS = (date(2050, 1, 1) - _FIRST_DAY).days


def _draw(chance: Chance) -> tuple[Meaning, ...]:
    kinds = chance.shuffled(tuple(_DRAWS))
    return tuple((kind, _DRAWS[kind](chance)) for kind in kinds[: 1 + chance.below(3)])


def _draw_moment(chance: Chance) -> tuple[Any, ...]:
    said = chance.choose(("date", "time", "both", "both"))
    form = chance.choose(("full", "long", "short"))
    day = _FIRST_DAY + timedelta(days=chance.below(_DAYS))
    while day.day == 1:
        day = _FIRST_DAY + timedelta(days=chance.below(_DAYS))
    if form == "short":
        day = day.replace(year=2000)  # the year is not said
    # From six, as Spanish says "a la" at one, and never on the hour, which is said without minutes.
    clock = time(6 + chance.below(18), 5 + 5 * chance.below(11))
    relation = chance.choose(tuple(wording.RELATIONS))
    dated = (day, form) if said != "time" else (None, "full")
    return (*dated, clock, relation) if said != "date" else (*dated, None, "at")


def _draw_duration(chance: Chance) -> tuple[Any, ...]:
    return (chance.choose(tuple(wording.MANNERS)), chance.choose(_COUNTS), chance.choose(wording.DURATIONS))


def _draw_price(chance: Chance) -> tuple[Any, ...]:
    goods = (chance.choose(_COUNTS), chance.choose(wording.QUANTITIES))
    return (2 + chance.below(149), chance.choose(wording.CURRENCIES), *goods)


def _draw_number(chance: Chance) -> tuple[Any, ...]:
    return (chance.choose(_COUNTS),)


_DRAWS = {"moment": _draw_moment, "duration": _draw_duration, "price": _draw_price, "number": _draw_number}

# How it is said -----------------------------------------------------------------------------------------------------


def _say_moment(language: str, day: date | None, form: Form, clock: time | None, relation: str) -> Chunks:
    halves: Chunks = []
    if day is not None:
        spans = wording.date_wording(language, day, form)
        halves.append(("date", wording.say(language, "date", date=spans)))
    if clock is not None:
        word = wording.adverb(wording.RELATIONS, relation, language, "relation")
        halves.append(("time", wording.say(language, "time", relation=word, **wording.clock(language, clock))))
    if len(halves) == 2 and language not in wording.UNSPACED:
        halves.insert(1, ("space", (Span(" "),)))
    return halves[::-1] if language in wording.TIME_FIRST else halves


def _say_duration(language: str, manner: str, count: int, unit: str) -> Chunks:
    word = wording.adverb(wording.MANNERS, manner, language, "manner")
    return [("duration", wording.say(language, "duration", manner=word, **_counted(language, count, unit)))]


def _say_price(language: str, amount: int, currency: str, count: int, unit: str) -> Chunks:
    money = {"amount": wording.digits(amount, "amount"), "currency": wording.currency_wording(language, currency)}
    return [("price", wording.say(language, "price", **money, **_counted(language, count, unit)))]


def _say_number(language: str, count: int) -> Chunks:
    return [("number", wording.say(language, "number", count=wording.spelt(language, count, "count", False)))]


def _counted(language: str, count: int, unit: str) -> dict[str, Wording]:
    return {
        "count": wording.spelt(language, count, "count", counting=True),
        "unit": wording.unit_wording(language, unit),
    }


_SAYINGS: dict[str, Callable[..., Chunks]] = {
    "moment": _say_moment,
    "duration": _say_duration,
    "price": _say_price,
    "number": _say_number,
}


def _pair(meaning: tuple[Meaning, ...], source: str, target: str, line: int) -> Pair:
    (source_text, ours), (target_text, theirs) = (_said(meaning, language) for language in (source, target))
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for name in ours.keys() & theirs.keys():
        (place, tags), (other_place, other_tags) = ours[name], theirs[name]
        for links, into in zip(chunk_links(tags, other_tags), (sure, possible), strict=True):
            into.update((place + one, other_place + other) for one, other in links)
    return Pair(source_text, target_text, "built-in phrases", line, frozenset(sure), frozenset(possible))


def _said(meaning: tuple[Meaning, ...], language: str) -> tuple[str, dict[str, tuple[int, Tags]]]:
    """The text, and for each chunk of it the place of its first word and the tags of its words."""
    chunks: Chunks = []
    for place, (kind, content) in enumerate(meaning):
        if place:
            chunks.append((f"{place} separator", wording.say(language, "separator")))
        chunks += [(f"{place} {name}", spans) for name, spans in _SAYINGS[kind](language, *content)]
    places: dict[str, tuple[int, Tags]] = {}
    words = 0
    for name, spans in chunks:
        tags = tuple((span.field, span.part) for span in spans for _ in range(_words(span.text)))
        places[name] = (words, tags)
        words += len(tags)
    return "".join(span.text for _, spans in chunks for span in spans), places


@functools.cache
def _words(text: str) -> int:
    # No span touches a word of a neighbour without a space between, save Han characters, which are words one by one.
    return len(units(text))
