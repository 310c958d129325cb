"""Links in files: Pharaoh lines, and the links beside pairs."""

from pathlib import Path

import pytest

from regard.data.pairs.pharaoh import format_pharaoh, parse_pharaoh, read_pharaoh
from regard.data.translation.corpus import read_corpus
from regard.data.translation.settings import CorpusSettings
from regard.errors import DataError


def test_pharaoh_lines():
    gold = parse_pharaoh("1-1 2p3  3-2", first=1)
    assert gold.sure == {(0, 0), (2, 1)} and gold.possible == {(0, 0), (1, 2), (2, 1)}
    assert format_pharaoh(gold.sure, gold.possible, first=1) == "1-1 2p3 3-2"
    assert format_pharaoh(gold.sure) == "0-0 2-1"
    assert parse_pharaoh("", first=0) == (frozenset(), frozenset())
    assert parse_pharaoh("0-0", first=0).sure == {(0, 0)}


@pytest.mark.parametrize("line", ["1_2", "1-", "-1-2", "1-2-3", "a-b", "1x2", "¹-2"])
def test_pharaoh_lines_that_are_none(line):
    with pytest.raises(DataError, match="gold, line 3: .*is no link"):
        parse_pharaoh(line, first=0, origin="gold, line 3")


def test_pharaoh_counting_is_explicit(tmp_path: Path):
    path = tmp_path / "gold"
    path.write_bytes(b"1-1\n\n2p1 0-1\n")
    with pytest.raises(DataError, match="gold, line 3: '0-1' names word 0"):
        read_pharaoh(path, first=1)
    assert [len(gold.possible) for gold in read_pharaoh(path, first=0)] == [1, 0, 2]
    with pytest.raises(ValueError, match="0 or 1"):
        parse_pharaoh("1-1", first=2)


@pytest.fixture
def texts(tmp_path):
    """Two pairs: "l' accord ." is 3 words between white space and 4 units, "the agreement." is 2 and 3."""
    (tmp_path / "s").write_text("l' accord .\nun\n", encoding="utf-8")
    (tmp_path / "t").write_text("the agreement.\none\n", encoding="utf-8")
    (tmp_path / "tsv").write_text("l' accord . ||| the agreement.\nun ||| one\n", encoding="utf-8")

    def read(lines, tsv=False, **options):
        (tmp_path / "links").write_text(lines, encoding="utf-8")
        files = {"source": tmp_path / "s", "target": tmp_path / "t"}
        where = {"tsv": tmp_path / "tsv", "separator": " ||| "} if tsv else files
        return read_corpus(CorpusSettings(**where, links=tmp_path / "links", **options))

    return read


@pytest.mark.parametrize("tsv", [False, True])
def test_links_stand_beside_pairs(texts, tsv):
    one, other = texts("0-0 1p1\n\n", tsv=tsv)
    assert (one.links, one.possible, one.counted) == ({(0, 0)}, {(0, 0), (1, 1)}, "whitespace")
    assert (other.links, other.possible) == (frozenset(), frozenset())
    assert (one.source, one.target) == ("l' accord .", "the agreement.")
    assert texts("1-1 2p2\n\n", tsv=tsv, links_from=1) == [one, other]
    assert texts("0-0 1p1\n\n", tsv=tsv, links_reversed=True)[0].links == {(0, 0)}
    assert texts("1-2 0p0\n\n", tsv=tsv, links_reversed=True)[0].possible == {(2, 1), (0, 0)}
    units = texts("3-2\n\n", tsv=tsv, links_words="tokenizer")[0]
    assert units.links == {(3, 2)} and units.counted == "tokenizer"


@pytest.mark.parametrize(
    "lines, options, message",
    [
        ("0-0\n", {}, "links has 1 lines, but there are 2 pairs"),
        ("0-0\n0-0\n0-0\n", {}, "links has 3 lines, but there are 2 pairs"),
        ("0-0\n0_0\n", {}, "links, line 2: '0_0' is no link"),
        ("0-0\n0-0\n", {"links_from": 1}, "links, line 1: '0-0' names word 0.*--links-from 0, or links_from=0"),
        (
            "3-1\n\n",
            {},
            "links, line 1: a link names source word 3, but the source has 3 words, counted from 0 as whit",
        ),
        ("\n0-1\n", {}, "links, line 2: .*target word 1, but the target has 1 .*s, line 2.*links_words"),
        ("4-0\n\n", {"links_words": "tokenizer"}, "source word 4, but the source has 4 words, counted from 0 as tok"),
        ("4-1\n\n", {"links_from": 1}, "source word 4, but the source has 3 words, counted from 1"),
        ("0p2\n\n", {}, "target word 2"),
        ("2-1\n\n", {"links_reversed": True}, "target word 2, but the target has 2"),
    ],
)
def test_links_that_do_not_fit_are_named(texts, lines, options, message):
    with pytest.raises(DataError, match=message):
        texts(lines, **options)
