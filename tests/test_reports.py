"""Every id of a public report that a test cites stands in REPORTS.md with its thread, and nothing else does."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGE = TESTS / "REPORTS.md"
NAMES = {"B": r"(?<![A-Za-z0-9])([Bb]\d\d)(?![A-Za-z0-9])", "K": r"(?<![A-Za-z0-9])([Kk]\d\d?)(?![A-Za-z0-9])"}
THREAD = re.compile(
    r"\[([\w.-]+/[\w.-]+)(#| PR #)(\d+)\]\(https://github\.com/\1/(issues|pull)/\3\)|\[[\w.]+\]\(https://\S+\)"
)


def cited(letter: str, text: str) -> set[str]:
    """The ids in a text, in names of tests too (`_b29`); B018 of a linter and hexadecimal digits are none."""
    return {found.upper() for found in re.findall(NAMES[letter], text)}


def in_tests(letter: str) -> set[str]:
    sources = [path for path in TESTS.rglob("*.py") if path != Path(__file__)]
    return set().union(*(cited(letter, path.read_text(encoding="utf-8")) for path in sources))


def elsewhere(letter: str) -> set[str]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), TESTS / "SKIPS.md", *(ROOT / "src").rglob("*.py")]
    return set().union(*(cited(letter, page.read_text(encoding="utf-8")) for page in pages))


def rows(first: str) -> list[list[str]]:
    """The cells of the rows whose first one begins with this letter and a digit."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in cells if re.fullmatch(rf"{first}\d+", row[0])]


def test_every_id_that_a_test_cites_is_explained_and_no_other():
    ids = [row[0] for row in rows("B")]
    assert ids == sorted(set(ids))
    assert in_tests("B") == set(ids)
    assert elsewhere("B") <= set(ids)


def test_every_kind_is_explained():
    kinds = [row[0] for row in rows("K")]
    assert kinds == sorted(set(kinds), key=lambda kind: int(kind[1:]))
    assert in_tests("K") | elsewhere("K") <= set(kinds)
    assert {row[1] for row in rows("B")} == set(kinds)


def test_every_report_has_a_thread_that_can_be_opened():
    for row in rows("B"):
        assert len(row) == 4 and row[3], row
        for thread in row[2].split(", "):
            found = THREAD.fullmatch(thread)
            assert found is not None, thread
            if found[2]:
                assert (found[2] == " PR #") == (found[4] == "pull"), thread


def test_an_id_is_distinguished_from_what_resembles_one():
    assert cited("B", "B29, (B30) a_name_b31 test_b32_more _B33: B018 0xB34 ab35 B3") == {
        "B29", "B30", "B31", "B32", "B33"
    }  # fmt: skip
