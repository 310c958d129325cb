"""How five languages say dates, times, durations, numbers and prices.

babel gives the order of a date, the names of months, days, units and currencies; num2words the number words. Only what
joins them ("at", "for") is written here. A wording is a list of spans, and each span knows which part of the meaning it
says, which is what makes the true alignment known.
"""

import functools
import re
from datetime import date, time
from typing import NamedTuple

from babel import Locale
from babel.dates import format_date, format_time, get_date_format, tokenize_pattern
from babel.numbers import get_currency_name
from babel.units import format_unit
from num2words import num2words

from regard.data.units import units


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

# A clause is a template a language: {name} is a field, [name:text] a word with a counterpart in the other languages,
# and the rest are words (or marks) that only the grammar asks for. {date} is babel's own order.
TEMPLATES: dict[str, dict[str, str]] = {
    "en": {
        "date": "[on:on] {date}",
        "time": "[at:at] {hour}:{minute} {half}",
        "duration": "[during:for] {count} {unit}",
        "price": "{amount} {currency} [for:for] {count} {unit}",
        "number": "[number:number] {count}",
        "separator": "[separator:,] ",
    },
    "fr": {
        "date": "[on:le] {date}",
        "time": "[at:à] {hour} h {minute}",
        "duration": "[during:pendant] {count} {unit}",
        "price": "{count} {unit} [for:pour] {amount} {currency}",
        "number": "[number:numéro] {count}",
        "separator": "[separator:,] ",
    },
    "de": {
        "date": "[on:am] {date}",
        "time": "[at:um] {hour}:{minute} Uhr",
        "duration": "{count} {unit} [during:lang]",
        "price": "{count} {unit} [for:für] {amount} {currency}",
        "number": "[number:Nummer] {count}",
        "separator": "[separator:,] ",
    },
    "es": {
        "date": "[on:el] {date}",
        "time": "[at:a] las {hour}:{minute}",
        "duration": "[during:durante] {count} {unit}",
        "price": "{count} {unit} [for:por] {amount} {currency}",
        "number": "[number:número] {count}",
        "separator": "[separator:,] ",
    },
    "zh": {
        "date": "{date}",
        "time": "{half}{hour}点{minute}分",
        "duration": "[during:持续]{count}{unit}",
        "price": "{count}{unit}[for:卖]{amount}{currency}",
        "number": "{count}[number:号]",
        "separator": "[separator:，]",
    },
}
LANGUAGES = tuple(TEMPLATES)
TIME_FIRST = ("en",)
UNSPACED = ("zh",)

DURATIONS = ("duration-minute", "duration-hour", "duration-day", "duration-week", "duration-month", "duration-year")
QUANTITIES = (
    "mass-kilogram", "mass-gram", "mass-tonne", "volume-liter", "length-meter", "length-centimeter", "length-kilometer",
    "area-square-meter",
)  # fmt: skip
CURRENCIES = ("EUR", "GBP", "JPY", "CHF", "CAD", "INR")
# babel gives a currency's name whole; how many Chinese characters of it name the country.
_COUNTRY_CHARACTERS = {"GBP": 1, "JPY": 1, "CHF": 2, "CAD": 3, "INR": 2}
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


def date_wording(language: str, day: date, form: str) -> Wording:
    """A date in babel's order; `form` is "full" (weekday and year), "long" (year) or "short" (day and month)."""
    return tuple(
        Span(token) if field is None else Span(_date_field(language, token, _alike(day, token)), field)
        for token, field in _date_tokens(language, form)
    )


@functools.cache
def _date_tokens(language: str, form: str) -> tuple[tuple[str, str | None], ...]:
    if form == "short":
        pattern = Locale.parse(language).datetime_skeletons["MMMMd"].pattern
    else:
        pattern = get_date_format(form, language).pattern
    return tuple(
        (_plain(token), None) if kind == "chars" else (token[0] * token[1], _DATE_FIELDS[token[0]])
        for kind, token in tokenize_pattern(pattern)
    )


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


@functools.cache
def digits(number: int, field: str) -> Wording:
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
    between = text[joint.start : last.start]
    return (
        Span(text[: joint.start], field, "tens"),
        Span(between, field, "joint"),
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
        cut = _COUNTRY_CHARACTERS.get(currency, 0)
        first, second = name[:cut], name[cut:]
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
