"""How five languages say dates, times, durations, numbers and prices.

babel gives the order of a date, the names of months, days, units and currencies; num2words the number words. Only what
joins them ("at", "for") is written here. A wording is a list of spans, and each span knows which part of the meaning it
says, which is what makes the true alignment known.
"""

import functools
import re
from datetime import date, time
from typing import Literal, NamedTuple

from babel import Locale
from babel.dates import format_date, format_time, get_date_format, tokenize_pattern
from babel.numbers import get_currency_name
from babel.units import format_unit
from num2words import num2words

from regard.data.text.units import units


class Span(NamedTuple):
    """Some characters of a wording and what they say.

    Attributes:
        text: the characters.
        field: the part of the meaning ("month"), or None for a word that only the grammar asks for.
        part: the finer part, where a field has some ("tens", "ones"), else "".
    """

    text: str
    field: str | None = None
    part: str = ""


Wording = tuple[Span, ...]
Form = Literal["full", "long", "short"]

# A clause has a template per language: {name} is a field, [name:text] a word with a counterpart in the other languages,
# and the rest are words (or marks) that only the grammar asks for. {date} is babel's own order.
TEMPLATES: dict[str, dict[str, str]] = {
    "en": {
        "date": "on {date}",
        "time": "{relation} {hour}:{minute} {half}",
        "duration": "{manner} {count} {unit}",
        "price": "{amount} {currency} for {count} {unit}",
        "number": "[number:number] {count}",
        "separator": "[separator:,] ",
    },
    "fr": {
        "date": "le {date}",
        "time": "{relation} {hour} h {minute}",
        "duration": "{manner} {count} {unit}",
        "price": "{count} {unit} pour {amount} {currency}",
        "number": "[number:numéro] {count}",
        "separator": "[separator:,] ",
    },
    "de": {
        "date": "am {date}",
        "time": "{relation} {hour}:{minute} Uhr",
        "duration": "{manner} {count} {unit}",
        "price": "{count} {unit} für {amount} {currency}",
        "number": "[number:Nummer] {count}",
        "separator": "[separator:,] ",
    },
    "es": {
        "date": "el {date}",
        "time": "{relation} las {hour}:{minute}",
        "duration": "{manner} {count} {unit}",
        "price": "{count} {unit} por {amount} {currency}",
        "number": "[number:número] {count}",
        "separator": "[separator:,] ",
    },
    "zh": {
        "date": "{date}",
        "time": "{half}{hour}点{minute}分{relation}",
        "duration": "{manner}{count}{unit}",
        "price": "{count}{unit}卖{amount}{currency}",
        "number": "{count}[number:号]",
        "separator": "[separator:，]",
    },
}
RELATIONS = {
    "at": {"en": "at", "fr": "à", "de": "um", "es": "a", "zh": ""},
    "before": {"en": "before", "fr": "avant", "de": "vor", "es": "antes de", "zh": "前"},
    "after": {"en": "after", "fr": "après", "de": "nach", "es": "después de", "zh": "后"},
}
MANNERS = {
    "about": {"en": "about", "fr": "environ", "de": "etwa", "es": "aproximadamente", "zh": "约"},
    "almost": {"en": "almost", "fr": "presque", "de": "fast", "es": "casi", "zh": "近"},
    "exactly": {"en": "exactly", "fr": "exactement", "de": "genau", "es": "exactamente", "zh": "整"},
    "only": {"en": "only", "fr": "seulement", "de": "nur", "es": "solo", "zh": "仅"},
}
LANGUAGES = tuple(TEMPLATES)
TIME_FIRST = ("en",)
UNSPACED = ("zh",)

DURATIONS = ("duration-minute", "duration-hour", "duration-day", "duration-week", "duration-month", "duration-year")
QUANTITIES = (
    "mass-kilogram", "mass-gram", "mass-tonne", "volume-liter", "length-meter", "length-centimeter", "length-kilometer",
    "area-square-meter",
)  # fmt: skip
# Coins that several countries share, so that the country must be read to be translated.
CURRENCIES = ("EUR", "CAD", "DKK", "NOK", "SEK", "ISK", "CZK")
# babel gives a currency's name whole; this is what the coin is called at its end in Chinese.
_CHINESE_COINS = ("欧元", "克朗", "元")
_COIN_FIRST = ("fr", "es")
_DATE_FIELDS = {"y": "year", "M": "month", "d": "day", "E": "weekday"}
_TOKEN = re.compile(r"\{(\w+)\}|\[(\w+):([^\]]+)\]|([^\[{]+)")


def say(language: str, template: str, **fields: Wording) -> Wording:
    """Fill a template with the wordings of its fields."""
    return tuple(
        span for name, literal in _tokens(TEMPLATES[language][template]) for span in (fields[name] if name else literal)
    )


@functools.cache
def _tokens(template: str) -> list[tuple[str, Wording]]:
    """A template as names of fields and, where the name is empty, literal spans."""
    return [
        (name, () if name else (Span(literal, literal_name) if literal_name else Span(grammar),))
        for name, literal_name, literal, grammar in _TOKEN.findall(template)
    ]


def date_wording(language: str, day: date, form: Form) -> Wording:
    """A date in babel's order; `form` is "full" (weekday and year), "long" (year) or "short" (day and month)."""
    return tuple(
        Span(token) if field is None else Span(_date_field(language, token, _alike(day, token)), field)
        for token, field in _date_tokens(language, form)
    )


@functools.cache
def _date_tokens(language: str, form: Form) -> tuple[tuple[str, str | None], ...]:
    """A date pattern of CLDR as (letters of a field, its name) or (text between, None)."""
    short = Locale.parse(language).datetime_skeletons["MMMMd"]
    pattern = short if form == "short" else get_date_format(form, language)
    return tuple(
        (_plain(token), None) if isinstance(token, str) else (_letters(language, *token), _DATE_FIELDS[token[0]])
        for _, token in tokenize_pattern(pattern.pattern)
    )


def _letters(language: str, letter: str, width: int) -> str:
    # Chinese people rather write 周五 for Friday than 星期五, which CLDR calls the abbreviated form.
    return letter * (3 if language == "zh" and letter == "E" else width)


def _alike(day: date, token: str) -> date:
    """One date for all that this token says alike: babel formats slowly, so few dates are asked of it."""
    match token[0]:
        case "y":
            return date(day.year, 1, 1)
        case "M":
            return date(2000, day.month, 1)
        case "d":
            return date(2000, 1, day.day)
        case _:
            return date(2001, 1, 1 + day.weekday())  # the first of January 2001 was a Monday


@functools.cache
def _date_field(language: str, token: str, day: date) -> str:
    return _plain(format_date(day, token, language))


@functools.cache
def clock(language: str, moment: time) -> dict[str, Wording]:
    """Hour, minute and, where the language counts to twelve, the half (or the part) of the day."""
    twelve = language in ("en", "zh")
    patterns = {"hour": "h" if twelve else "H", "minute": "mm", "half": {"en": "a", "zh": "B"}.get(language)}
    return {
        name: (Span(_plain(format_time(moment, pattern, locale=language)), name),)
        for name, pattern in patterns.items()
        if pattern
    }


def adverb(table: dict[str, dict[str, str]], meaning: str, language: str, field: str) -> Wording:
    """A word of `RELATIONS` or `MANNERS`; what follows its first word in Spanish ("antes de") is grammar."""
    first, space, rest = table[meaning][language].partition(" ")
    return (Span(first, field), Span(space + rest))


@functools.cache
def digits(number: int, field: str) -> Wording:
    """A number in digits, as one span of a field."""
    return (Span(str(number), field),)


@functools.cache
def spelt(language: str, number: int, field: str, counting: bool) -> Wording:
    """A number from 2 to 99 in words, cut into tens and ones where the language says them one after the other.

    Args:
        counting: whether things are counted: Chinese then says 两 for two.
    """
    if language == "zh":
        tens, ones = divmod(number, 10)
        head = ("" if tens == 1 else _HAN_DIGITS[tens]) + "十" if tens else ""
        tail = "两" if number == 2 and counting else _HAN_DIGITS[ones]
        return tuple(Span(text, field, part) for text, part in ((head, "tens"), (tail, "ones")) if text)
    text = num2words(number, lang=language)
    if number < 20 or number % 10 == 0:
        return (Span(text, field, "whole" if 10 <= number < 20 else "tens" if number > 9 else "ones"),)
    ones = num2words(number % 10, lang=language)
    words = units(text)
    # "vingt-deux" ends with its ones, "soixante-douze" does not, "fünfundzwanzig" is one word.
    if len(words) < 3 or words[-1].text != ones:
        return (Span(text, field, "whole"),)
    joint, last = words[-2], words[-1]
    tens = text[: joint.start].rstrip()
    return (
        Span(tens, field, "tens"),
        Span(text[len(tens) : last.start], field, "joint"),
        Span(ones, field, "ones"),
    )


_HAN_DIGITS = ("", *"一二三四五六七八九")


@functools.cache
def unit_wording(language: str, unit: str) -> Wording:
    """The name of a unit, as it follows a number that is not one."""
    return (Span(_plain(format_unit(3, unit, "long", locale=language)).replace("3", "", 1).strip(), "unit"),)


@functools.cache
def currency_wording(language: str, currency: str) -> Wording:
    """A currency's name after a number that is not one: the coin, and the country where it is named."""
    name = _plain(get_currency_name(currency, 3, locale=language))
    if language == "zh":
        second = next(coin for coin in _CHINESE_COINS if name.endswith(coin))
        first = name.removesuffix(second)
    else:
        first, _, second = name.rpartition(" ")
    if not first:
        return (Span(second, "coin"),)
    between = "" if language == "zh" else " "
    fields = ("coin", "country") if language in _COIN_FIRST else ("country", "coin")
    return (Span(first, fields[0]), Span(between), Span(second, fields[1]))


def _plain(text: str) -> str:
    """CLDR's no-break spaces, which differ between its releases, as plain ones."""
    return re.sub(r"[\u00a0\u202f\u2009]", " ", text)
