import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

import pytest

import regard
from regard.attention.family.family import System, family
from regard.attention.family.page import KINDS, markdown

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
HOMES = [
    "attend",
    *(f"modules.{one}" for one in ("linear", "local", "multihead", "pooling")),
    "parts.normalize",
    "parts.score",
]


def test_the_pages_are_printed_from_the_table():
    for name, language in (("family.md", "en"), ("family.zh.md", "zh")):
        printed = markdown(language).encode()
        assert (DOCS / name).read_bytes() == printed, "run: python -m regard.attention.family.page docs"


def test_every_system_of_the_design_has_a_row():
    rows = family()
    assert regard.family() == rows
    assert [system.name for system in rows] == [
        "bahdanau",
        "luong-global",
        "luong-local",
        "show-attend-tell",
        "pointer",
        "lstmn",
        "neural-turing-machine",
        "differentiable-neural-computer",
        "key-value",
        "learned-queries",
        "transformer",
        "snail",
        "sagan",
        "perceiver",
        "linear",
        "bottom-up",
    ]
    assert all(isinstance(system, System) for system in rows)


@pytest.mark.parametrize("system", family(), ids=lambda system: system.name)
def test_what_a_row_claims_exists(system):
    names = {}
    for home in HOMES:
        names.update(vars(import_module(f"regard.attention.{home}")))
    assert eval(system.here, names) is not None  # its attention can be made as written
    if system.model:
        assert util.find_spec(system.model) is not None
    assert system.model or system.later.en  # what is not there is named


def test_no_folder_of_models_is_missed_by_the_table():
    """The table said of the Transformer that its models were not there yet while they were."""
    folders = {path.parent.name for path in (ROOT / "src" / "regard" / "models").glob("*/*.py")}
    named = {system.model.split(".")[2] for system in family() if system.model.startswith("regard.models.")}
    assert folders - named == {"reading"}  # its readers point (Pointer network) or are a memory's machine


@pytest.mark.parametrize("system", family(), ids=lambda system: system.name)
def test_every_row_is_complete_in_both_languages(system):
    cells = (system.title, system.score, system.mask, system.normalizer, system.refocus, system.read, system.later)
    assert all(bool(cell.en) == bool(cell.zh) for cell in cells)
    assert system.score.en and system.normalizer.en and system.read.en
    assert 2014 <= system.year <= 2021 and ("arXiv" in system.paper or "Nature 538" in system.paper)
    assert system.kinds and set(system.kinds) <= set(KINDS)
    assert {"self", "cross"} & set(system.kinds) and {"soft", "hard"} & set(system.kinds)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_row_of_the_page_has_as_many_cells_as_its_head(language):
    rows = [line for line in markdown(language).splitlines() if line.startswith("|")]
    assert len(rows) == len(family()) + 2
    assert len({row.count("|") for row in rows}) == 1


def test_the_table_is_read_without_torch():
    code = "import sys, regard.attention.family.page as page; page.markdown('zh'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
