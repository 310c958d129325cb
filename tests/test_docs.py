"""The documents are true: links lead somewhere, examples run and print what they show, the tables match the code."""

import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest

from regard.attention.family.family import family

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path for folder in (ROOT, ROOT / "docs", ROOT / "tests", ROOT / "benchmarks") for path in folder.glob("*.md")
)
RUN = tuple(f"{page}{language}.md" for page in ("README", "docs/attention", "docs/roots") for language in ("", ".zh"))
CONCEPTS = 49

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Links --------------------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """The page without its code, in which brackets mean other things."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as the web page of a repository makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for link in _LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{name(page)}: {link} has no such heading"


def test_a_dead_link_and_a_wrong_anchor_would_be_seen():
    assert _LINK.findall(prose("![a](b.png) [c](d.md#e) `[no](x)`\n```\n[no](y)\n```\n")) == ["b.png", "d.md#e"]
    assert anchors('# The words of the column "kind"\n## 1 · Scores\n```\n# no\n```\n') == {
        "the-words-of-the-column-kind",
        "1--scores",
    }


# Files and names ----------------------------------------------------------------------------------------------------

# The changelog tells of files as they were called; the results, of the commit that they name.
NAMING = [page for page in PAGES if page.name not in ("CHANGELOG.md", "results.md")]
# Files of a run folder, and of others.
OF_OTHERS = {"config.yaml", "emoji.json", "annotations.json"}
# Files that several folders have.
ANYWHERE = {"task.py", "settings.py", "predictor.py", "data.py", "view.py", "evaluation.py", "learning.py"}
_FILE = re.compile(r"[\w./-]+\.(?:py|cpp|hpp|json|yaml|md)|(?:[a-z_]\w*/)+")


def named_files(text: str) -> set[str]:
    """What a page names in backticks as a file or as a folder of this repository."""
    found: set[str] = set()
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)):
        words = [word.split("::")[0] for word in span.split()] if span.startswith("python ") else [span.split("::")[0]]
        found |= {word for word in words if _FILE.fullmatch(word) and not word.startswith((".", "/", "~"))}
    return found


def is_a_file(name: str, page: Path) -> bool:
    """Whether a file or folder of this name is there: as seen from the repository, the package, or the page."""
    return any((base / name).exists() for base in (ROOT, ROOT / "src" / "regard", page.parent))


@pytest.mark.parametrize("page", NAMING, ids=name)
def test_files_that_a_page_names_are_there(page):
    """With their folder: `call.py` alone says nothing to a reader, and no test would see it move."""
    named = {one for one in named_files(page.read_text(encoding="utf-8")) if one not in ANYWHERE | OF_OTHERS}
    gone = sorted(one for one in named if not is_a_file(one, page))
    assert not gone, f"{name(page)} names {', '.join(gone)}, which is not there"


@pytest.mark.parametrize("page", NAMING, ids=name)
def test_names_of_the_package_that_a_page_uses_are_there(page):
    text = page.read_text(encoding="utf-8")
    for dotted in sorted({found.rstrip(".") for found in re.findall(r"\bregard(?:\.[A-Za-z_]\w*)+", text)}):
        if not dotted.startswith(("regard.load", "regard.ensemble")):
            assert resolves(dotted), f"{name(page)} names {dotted}, which is not there"


def resolves(dotted: str) -> bool:
    """Whether a module, or what it holds, has this name."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_classes_and_functions_that_a_page_for_developers_names_are_there(page):
    spans = re.findall(r"`([^`\n]+)`", (ROOT / page).read_text(encoding="utf-8"))
    named = {name for span in spans for name in re.findall(r"\b([A-Z][a-z]\w+)\b|(?<![.\w])([a-z_]\w*)\(", span)}
    known = set().union(*(definitions(path) for path in (ROOT / "src").rglob("*.py")))
    gone = (
        {one or other for one, other in named}
        - known
        - {"Field", "Float", "Path", "Tensor", "Mapping", "True", "False", "None", "model"}
    )
    assert not gone, f"{page} names {', '.join(sorted(gone))}, which is not there"


def test_the_page_of_architecture_has_a_line_for_each_folder():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names: list[str] = []
    shown = set()
    for line in re.findall(r"^[│├└─ ]*── \w+/", page, re.MULTILINE):
        depth = len(line[: line.index("── ")]) // 4
        names[depth:] = [line.split("── ")[1].rstrip("/")]
        shown.add("/".join(names))
    source = ROOT / "src" / "regard"
    assert shown == {path.relative_to(source).as_posix() for path in source.rglob("*") if holds_source(path)}


def holds_source(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.py")) | any(path.glob("*.yaml"))


def test_a_file_or_name_that_is_gone_would_be_seen():
    text = "`a/b.py`, `c.cpp::d` and `python e/f.py --g`, not `h.i`, `~/j.py` or\n```\n`k.py`\n```\n`models/` `l/m/`"
    assert named_files(text) == {"a/b.py", "c.cpp", "e/f.py", "models/", "l/m/"}
    assert not is_a_file("call.py", ROOT / "README.md") and is_a_file("errors.py", ROOT / "README.md")
    assert resolves("regard.attend") and resolves("regard.masks.causal") and not resolves("regard.attention.nothing")


# Examples -----------------------------------------------------------------------------------------------------------


def examples(text: str) -> list[tuple[str, str]]:
    """Each Python block with the text block that follows it at once: what it prints ("" without one)."""
    found: list[tuple[str, str]] = []
    end = -1
    for block in _FENCE.finditer(text):
        language, body = block.groups()
        if language == "python":
            found.append((body, ""))
        elif language == "text" and found and not text[end : block.start()].strip():
            found[-1] = (found[-1][0], body)
        end = block.end()
    return found


_RUNNER = """
import contextlib, io, json, sys
for page, blocks in json.load(sys.stdin):
    names = {"__name__": page}
    for number, code in enumerate(blocks):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page}, example {number + 1}", "exec"), names)
        print(json.dumps([page, number, printed.getvalue()]))
"""


def test_examples_run_and_print_what_the_pages_show():
    """Each page from top to bottom, all in one Python without the suite's run-time checks: as a reader has it."""
    pages = {page: examples((ROOT / page).read_text(encoding="utf-8")) for page in RUN}
    assert all(pages.values()), "a page has lost its examples"
    given = json.dumps([[page, [code for code, _ in blocks]] for page, blocks in pages.items()])
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER], input=given, capture_output=True, text=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        page, number, printed = json.loads(line)
        assert printed == pages[page][number][1], f"{page}, example {number + 1} prints:\n{printed}"


def test_both_languages_have_the_same_examples():
    def without_comments(page: str) -> list[tuple[str, str]]:
        found = examples((ROOT / page).read_text(encoding="utf-8"))
        return [(ast.unparse(ast.parse(code)), printed) for code, printed in found]

    for page in ("README", "docs/attention", "docs/roots"):
        assert without_comments(f"{page}.md") == without_comments(f"{page}.zh.md")


def test_the_extraction_pairs_code_with_what_it_prints():
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 2\n```\n\nwords\n\n```text\nno\n```\n"
    assert examples(text) == [("print(1)\n", "1\n"), ("x = 2\n", "")]


# Tables -------------------------------------------------------------------------------------------------------------


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first head is this."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        inside = bool(cells) and (inside or cells[0] == heading)
        if inside:
            found.append(cells)
    return found[2:]


@pytest.mark.parametrize(
    ("page", "heading", "language"), [("README.md", "system", "en"), ("README.zh.md", "系统", "zh")]
)
def test_the_short_table_of_the_family_is_the_codes(page, heading, language):
    shown = rows((ROOT / page).read_text(encoding="utf-8"), heading)
    texts = [(one.title, one.score, one.normalizer, one.refocus, one.read) for one in family()]
    assert [cells[:5] for cells in shown] == [[getattr(text, language) for text in row] for row in texts]
    for cells, one in zip(shown, family(), strict=True):
        assert (f"`{one.model}`" == cells[5]) if one.model else (cells[5] == ""), cells[0]


def coverage() -> list[list[str]]:
    return rows((ROOT / "docs" / "coverage.md").read_text(encoding="utf-8"), "#")


def test_every_concept_has_its_row_in_order():
    assert [row[0] for row in coverage()] == [str(number) for number in range(1, CONCEPTS + 1)]
    for row in coverage():
        assert len(row) == 7 and all(row[1:3]), f"row {row[0]}: a name is missing, or a | too many"


@pytest.mark.parametrize("row", coverage(), ids=lambda row: f"concept{row[0]}")
def test_what_a_row_of_the_coverage_names_is_there(row):
    number, _, _, module, command, test, state = row
    for dotted in re.findall(r"`(regard[\w.]*)`", module):
        assert is_there(dotted), f"row {number}: {dotted}"
    tests = re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", test)
    for path, function in tests:
        assert (ROOT / path).is_file(), f"row {number}: {path}"
        if function:
            assert function in definitions(ROOT / path), f"row {number}: {path} has no {function}"
    for line in re.findall(r"`regard ([^`]+)`", command):
        assert line.split()[0] in commands(), f"row {number}: no command regard {line}"
    # A row without a test is not covered.
    assert state.startswith("done here") == bool(tests), f"row {number} is {state!r} with {len(tests)} tests"
    assert state.startswith("done here") == ("`regard" in module), f"row {number} is {state!r} in {module!r}"
    assert state.startswith(("done here", "later")), f"row {number}: {state!r}"


def is_there(dotted: str) -> bool:
    """A module, or a name that a module defines, or one that the package exports."""
    base = ROOT / "src" / Path(*dotted.split("."))
    if base.with_suffix(".py").is_file() or base.is_dir():
        return True
    home, name = dotted.rsplit(".", 1)
    path = ROOT / "src" / Path(*home.split("."))
    source = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    text = source.read_text(encoding="utf-8")
    return re.search(rf"^(def|class) {name}\b|^{name}\b.*=|^ +\"{name}\":", text, re.MULTILINE) is not None


def definitions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def commands() -> set[str]:
    from typer.main import get_command

    from regard.cli.app import app

    return set(get_command(app).commands)  # type: ignore[attr-defined]
