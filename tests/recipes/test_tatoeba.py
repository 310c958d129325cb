"""The alignment recipes read the Hansards' true links the right way round."""

import pytest

from regard.data.translation.corpus import read_corpus
from regard.tasks.core.config import check
from regard.tasks.core.settings import settings_of
from regard.tasks.experiments.ledger import find
from regard.tasks.experiments.reproduce import tested as reads
from tests.shared import SHARED, needs_shared


@needs_shared
@pytest.mark.parametrize("name, turned", [("tatoeba-fr-en", True), ("tatoeba-en-fr", False)])
def test_the_hansards_links_are_the_right_way_round(name, turned):
    """Line 22: the fourth English word, "the", is the fifth French one, "le", and so on; read off the text by hand."""
    pairs = read_corpus(check(settings_of("translation").tests, reads(find(name), SHARED / "data")))
    assert len(pairs) == 447 and sum(len(pair.links) for pair in pairs) == 4038
    pair = pairs[21]
    french, english = (pair.source, pair.target) if turned else (pair.target, pair.source)
    assert english.split() == ["i", "disagree", "with", "the", "argument", "advanced", "by", "the", "minister", "."]
    assert french.split() == ["je", "ne", "partage", "pas", "le", "avis", "de", "le", "ministre", "."]
    linked = {(0, 0), (3, 4), (7, 7), (8, 8), (9, 9)}  # English, French
    assert pair.links == ({(there, here) for here, there in linked} if turned else linked)
    assert pair.counted == "whitespace"
