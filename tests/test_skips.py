"""Every test that is skipped, slow or for a GPU stands in SKIPS.md with its reason, and nothing else does."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
MARKS = {"skip", "skipif", "xfail", "slow", "gpu"}
CALLS = {"skip": "skip", "importorskip": "skipif", "xfail": "xfail"}
Aliases = dict[str, set[str]]


def marks_in(node: ast.AST, aliases: Aliases) -> set[str]:
    """The marks that a piece of code sets: `pytest.mark.slow`, `pytest.skip(…)`, or a name that stands for one."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in MARKS | set(CALLS):
            owner = ast.unparse(part.value)
            if owner == "pytest.mark":
                found.add(part.attr)
            elif owner == "pytest":
                found.add(CALLS[part.attr])
        elif isinstance(part, ast.Name):
            found |= aliases.get(part.id, set())
    return found


def aliases_of(tree: ast.Module, others: dict[str, Aliases]) -> Aliases:
    """Names of a file that stand for marks: assigned there, or imported from another file of the tests."""
    found: Aliases = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module in others:
            found |= {alias.asname or alias.name: others[node.module].get(alias.name, set()) for alias in node.names}
        elif isinstance(node, ast.Assign):
            marks = marks_in(node.value, found)
            found |= {target.id: marks for target in node.targets if isinstance(target, ast.Name) and marks}
    return found


def marked(tree: ast.Module, aliases: Aliases) -> set[tuple[str, str]]:
    """(name, mark) of each function, class or whole file ("") that carries one."""
    found: set[tuple[str, str]] = set()

    def look(body: list[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                name = f"{inside}{node.name}"
                found.update((name, mark) for one in node.decorator_list for mark in marks_in(one, aliases))
                look(node.body, f"{name}::")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.update((f"{inside}{node.name}", mark) for mark in marks_in(node, aliases))
            elif isinstance(node, ast.Assign):
                if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets):
                    found.update((inside.removesuffix("::"), mark) for mark in marks_in(node.value, aliases))
            else:  # a skip of the whole file, also under `if` or `try`
                found.update((inside.removesuffix("::"), mark) for mark in marks_in(node, aliases))

    look(tree.body, "")
    return found


def in_the_tests() -> set[tuple[str, str]]:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("*.py"))}
    shared = {
        ".".join(path.relative_to(TESTS.parent).with_suffix("").parts): aliases_of(tree, {})
        for path, tree in trees.items()
    }
    found = set()
    for path, tree in trees.items():
        if path == Path(__file__):  # it only speaks of marks
            continue
        place = path.relative_to(TESTS).as_posix()
        for name, mark in marked(tree, aliases_of(tree, shared)):
            found.add((f"{place}::{name}" if name else place, mark))
    return found


def in_the_page() -> set[tuple[str, str]]:
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (.*) \|$", (TESTS / "SKIPS.md").read_text(encoding="utf-8"), re.M)
    assert all(reason.strip() for _, _, reason in rows), "a row of tests/SKIPS.md has no reason"
    assert len(rows) == len({row[:2] for row in rows}), "a row of tests/SKIPS.md stands there twice"
    return {(test, mark) for test, mark, _ in rows}


def test_the_page_lists_what_is_not_always_run():
    in_code, on_page = in_the_tests(), in_the_page()
    assert not in_code - on_page, f"enter in tests/SKIPS.md, with the reason: {sorted(in_code - on_page)}"
    assert not on_page - in_code, f"no longer marked so, take out of tests/SKIPS.md: {sorted(on_page - in_code)}"


def test_every_way_to_mark_a_test_is_seen():
    code = """
import pytest
from shared import needs_shared
LONG = [pytest.param(1, marks=pytest.mark.slow)]

@needs_shared
def test_a(): ...

@pytest.mark.parametrize("x", [2, *LONG])
def test_b(x): ...

class TestC:
    @pytest.mark.gpu
    def test_d(self): ...

def test_e():
    pytest.importorskip("sentencepiece")

def test_f(): ...
"""
    tree = ast.parse(code)
    aliases = aliases_of(tree, {"shared": {"needs_shared": {"skipif"}}})
    assert marked(tree, aliases) == {
        ("test_a", "skipif"),
        ("test_b", "slow"),
        ("TestC::test_d", "gpu"),
        ("test_e", "skipif"),
    }
    assert marked(ast.parse("import pytest\npytestmark = pytest.mark.slow\n"), {}) == {("", "slow")}
