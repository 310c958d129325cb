"""docs/worked.md and docs/worked.zh.md are what the table gives."""

import re
from pathlib import Path

import pytest

from regard.worked import work
from regard.worked.page import FILES, page, write
from regard.worked.table import WORKED

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("language", list(FILES))
def test_the_page_is_up_to_date(language):
    written = (DOCS / FILES[language]).read_text(encoding="utf-8")
    assert written == page(language), "run: python -m regard.worked.page docs"


def test_write_gives_both(tmp_path):
    assert [path.name for path in write(tmp_path)] == ["worked.md", "worked.zh.md"]
    assert (tmp_path / "worked.md").read_text(encoding="utf-8") == page("en")


@pytest.mark.parametrize("language", list(FILES))
def test_every_row_and_input_is_there(language):
    text = page(language)
    for row in WORKED.values():
        assert f"## {row.id} · {row.title.to(language)}" in text
        assert f"    regard worked {row.id}" in text
        for each in row.inputs:
            assert f"`--{each.name}`" in text and f"`{each.default}`" in text


def test_the_examples_at_the_head_run():
    for name, query, key in re.findall(r'regard worked (W\d+) --query "(.+?)" --key "(.+?)"', page("en") + page("zh")):
        assert work(name, {"query": query, "key": key}).value("score") == 11
