import hashlib
import os
import subprocess
import sys
from datetime import date, time

import pytest

from regard.data.synthetic import wording
from regard.data.synthetic.links import chunk_links
from regard.data.synthetic.phrases import LANGUAGES, _pair, phrases
from regard.data.text.units import normalize, units
from regard.errors import ConfigError


def said(spans):
    return "".join(span.text for span in spans)


def linked(pair, links):
    source, target = ([unit.text for unit in units(text)] for text in (pair.source, pair.target))
    return {(source[one], target[other]) for one, other in links}


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "Friday, March 5, 2021"),
        ("fr", "vendredi 5 mars 2021"),
        ("de", "Freitag, 5. März 2021"),
        ("es", "viernes, 5 de marzo de 2021"),
        ("zh", "2021年3月5日周五"),
    ],
)
def test_dates_are_said_as_people_say_them(language, expected):
    assert said(wording.date_wording(language, date(2021, 3, 5), "full")) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "before 7:05 PM"),
        ("fr", "avant 19 h 05"),
        ("de", "vor 19:05 Uhr"),
        ("es", "antes de las 19:05"),
        ("zh", "晚上7点05分前"),
    ],
)
def test_times_are_said_as_people_say_them(language, expected):
    word = wording.adverb(wording.RELATIONS, "before", language, "relation")
    assert said(wording.say(language, "time", relation=word, **wording.clock(language, time(19, 5)))) == expected


def test_numbers_in_words_and_their_parts():
    def parts(language, number, counting=False):
        return [(span.text, span.part) for span in wording.spelt(language, number, "count", counting)]

    assert parts("en", 42) == [("forty", "tens"), ("-", "joint"), ("two", "ones")]
    assert parts("fr", 42) == [("quarante", "tens"), ("-", "joint"), ("deux", "ones")]
    assert parts("fr", 85) == [("quatre-vingt", "tens"), ("-", "joint"), ("cinq", "ones")]
    assert parts("fr", 72) == [("soixante-douze", "whole")]
    assert parts("fr", 80) == [("quatre-vingts", "tens")]
    assert parts("de", 42) == [("zweiundvierzig", "whole")]
    assert parts("es", 42) == [("cuarenta", "tens"), (" y ", "joint"), ("dos", "ones")]
    assert parts("es", 23) == [("veintitrés", "whole")]
    assert parts("zh", 42) == [("四十", "tens"), ("二", "ones")]
    assert parts("zh", 15) == [("十", "tens"), ("五", "ones")]
    assert parts("zh", 2) == [("二", "ones")]
    assert parts("zh", 2, counting=True) == [("两", "ones")]
    assert parts("zh", 42, counting=True) == [("四十", "tens"), ("二", "ones")]


def test_currencies_name_coin_and_country_in_their_order():
    names = {language: said(wording.currency_wording(language, "NOK")) for language in LANGUAGES}
    assert names == {
        "en": "Norwegian kroner",
        "fr": "couronnes norvégiennes",
        "de": "Norwegische Kronen",
        "es": "coronas noruegas",
        "zh": "挪威克朗",
    }
    fields = {
        language: [span.field for span in wording.currency_wording(language, "NOK") if span.field]
        for language in LANGUAGES
    }
    assert fields == {
        "en": ["country", "coin"],
        "fr": ["coin", "country"],
        "de": ["country", "coin"],
        "es": ["coin", "country"],
        "zh": ["country", "coin"],
    }
    assert [span[:2] for span in wording.currency_wording("zh", "EUR")] == [("欧元", "coin")]


def test_links_by_hand():
    # "twenty - five days" and "vingt - cinq jours"; the joint may link to its whole number.
    number = (("count", "tens"), ("count", "joint"), ("count", "ones"), ("unit", ""))
    sure, possible = chunk_links(number, number)
    assert sure == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert possible - sure == {(1, 0), (1, 2), (0, 1), (2, 1)}
    # One word against three: surely the whole, its joint possibly.
    sure, possible = chunk_links(number, (("count", "whole"), ("unit", "")))
    assert sure == {(0, 0), (2, 0), (3, 1)}
    assert possible - sure == {(1, 0)}
    # "7 : 30 PM" and "19 h 30": PM is in the 19, grammar may link to anything.
    sure, possible = chunk_links(
        (("hour", ""), (None, ""), ("minute", ""), ("half", "")), (("hour", ""), (None, ""), ("minute", ""))
    )
    assert sure == {(0, 0), (2, 2)}
    assert possible - sure == {(3, 0), (1, 0), (1, 1), (1, 2), (0, 1), (2, 1), (3, 1)}


def test_gold_links_of_a_phrase_by_hand():
    moment = ("moment", (date(2021, 3, 5), "full", time(19, 30), "before"))
    pair = _pair((("number", (42,)), moment), "en", "zh", 1)
    assert pair.source == "number forty-two, before 7:30 PM on Friday, March 5, 2021"
    assert pair.target == "四十二号，2021年3月5日周五晚上7点30分前"
    assert linked(pair, pair.links) == {
        *(("forty", character) for character in "四十"),
        ("two", "二"),
        ("number", "号"),
        (",", "，"),
        ("2021", "2021"),
        ("March", "3"),
        ("5", "5"),
        *(("Friday", character) for character in "周五"),
        *(("PM", character) for character in "晚上"),
        ("7", "7"),
        ("30", "30"),
        ("before", "前"),
    }
    possible = linked(pair, pair.possible - pair.links)
    assert {("-", "四"), ("-", "十"), ("-", "二"), ("on", "年"), ("7", "点"), (":", "7")} <= possible
    assert not {one for one, other in possible if other == "3"} - {"on", ","}


@pytest.mark.parametrize(("source", "target"), [("en", "fr"), ("en", "zh"), ("de", "en"), ("es", "zh"), ("zh", "fr")])
def test_links_are_whole(source, target):
    for pair in phrases(97, 5, source, target):
        sizes = len(units(pair.source)), len(units(pair.target))
        assert pair.links is not None and pair.possible is not None
        assert pair.links <= pair.possible
        assert all(0 <= one < sizes[0] and 0 <= other < sizes[1] for one, other in pair.possible)
        # Every word has an acceptable link, so that a perfect alignment can be perfect.
        assert {one for one, _ in pair.possible} == set(range(sizes[0]))
        assert {other for _, other in pair.possible} == set(range(sizes[1]))
        assert normalize(pair.source) == pair.source
        assert normalize(pair.target) == pair.target


@pytest.mark.parametrize("target", ["fr", "zh"])
def test_the_translation_is_a_function_of_the_source_and_words_reorder(target):
    made = phrases(1500, 1, "en", target)
    assert len({pair.source for pair in made}) == len({pair.target for pair in made}) == 1500
    crossed = [any(a < c and b > d for a, b in pair.links or () for c, d in pair.links or ()) for pair in made]
    assert sum(crossed) > 0.6 * len(made)
    words = {unit.text for pair in made for unit in units(pair.source)}
    assert 250 <= len(words) <= 350


def test_phrases_are_distinct_on_both_sides():
    made = phrases(250, 3)
    assert len({pair.source for pair in made}) == len({pair.target for pair in made}) == 250
    assert phrases(10, 3) == made[:10]
    assert phrases(10, 4) != made[:10]


def test_meanings_are_the_same_for_any_two_languages():
    assert [pair.source for pair in phrases(31, 0, "en", "fr")] == [pair.source for pair in phrases(31, 0, "en", "zh")]
    assert [pair.target for pair in phrases(31, 0, "en", "de")] == [pair.source for pair in phrases(31, 0, "de", "zh")]


def test_b37_the_same_phrases_for_any_hash_seed():
    code = """
from regard.data.synthetic.phrases import phrases
for pair in phrases(101, 7, 'en', 'zh'):
    print(ascii((pair.source, pair.target, sorted(pair.links), sorted(pair.possible))))
import sys
assert 'torch' not in sys.modules, 'phrases must not need torch'
"""
    outputs = set()
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        outputs.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(outputs) == 1


def test_unknown_languages_are_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"in 'zn'.*Known: de, en, es, fr, zh"):
        phrases(1, target="zn")
    with pytest.raises(ConfigError, match="both are 'fr'"):
        phrases(1, source="fr", target="fr")
