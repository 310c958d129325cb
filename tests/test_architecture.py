"""The rooms import each other as docs/architecture.md says: read from the source, lazy imports inside functions too."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "regard"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 400
MOST_FILES = 15
"""Of one folder, C++ too; `__init__.py`, which is empty, is not counted."""

# Rooms whose files are a list: a file a command, a result, a question.
LISTS = {"cli", "recipes", "studies"}
# Tests of what no single file of the package holds.
ABOUT_THE_WHOLE = {
    "test_architecture.py": "the rooms and what they import",
    "test_benchmarks.py": "the programs in benchmarks/",
    "test_docs.py": "the pages in docs/",
    "test_glossary.py": "docs/glossary.md and its terms",
    "test_package.py": "the installed package and the file built from it",
    "test_reports.py": "the list of public reports beside it",
    "test_skips.py": "the list of skipped tests beside it",
    "test_start_up.py": "what `import regard` and the command line load",
    "test_trained.py": "run folders that an earlier version trained, one or more of each task",
}
# The package's own two files: one names what users import, the other starts the program.
OUTSIDE = {"__init__", "__main__"}


def tiers() -> list[set[str]]:
    """The rooms from the top down, as the page's line of arrows has them."""
    line = re.search(r"`(cli → [^`]*)`", PAGE)
    assert line, "docs/architecture.md has lost its line `cli → …`"
    return [set(re.split(r",\s*", tier)) for tier in re.split(r"\s*→\s*", line[1])]


def allowed() -> dict[str, set[str]]:
    """The page's table: each room, and the rooms that it may import."""
    table: dict[str, set[str]] = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            for name in re.findall(r"`(\w+)(?:/|\.py)`", cells[0]):
                table[name] = set(re.findall(r"`(\w+)`", cells[2]))
    return table


def room(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else path.stem


def imports(tree: ast.AST) -> set[str]:
    """Every module of this package that a file names in an import, or gives to `import_module` as a string."""
    found: set[str] = set()
    by_name = any(isinstance(node, ast.Name | ast.alias) and _id(node) == "import_module" for node in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports here are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif by_name and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return {name for name in found if name.startswith("regard.")}


def _id(node: ast.Name | ast.alias) -> str:
    return node.id if isinstance(node, ast.Name) else node.name


@cache
def graph() -> dict[str, dict[str, set[str]]]:
    """Room → the rooms that it imports → the files that do so."""
    arrows: dict[str, dict[str, set[str]]] = {}
    for path in FILES:
        mine = arrows.setdefault(room(path), {})
        for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
            other = name.split(".")[1]
            if other != room(path) and (SOURCE / other).is_dir() | (SOURCE / f"{other}.py").is_file():
                mine.setdefault(other, set()).add(str(path.relative_to(SOURCE)))
    return arrows


def test_every_room_has_its_place_on_the_page():
    rooms = {room(path) for path in FILES} - OUTSIDE
    assert rooms == set().union(*tiers())
    assert rooms == {name for name in allowed() if name not in {"recipes", "studies"}}


def drawn() -> list[str]:
    """The folders of the page's tree, such as `kernels/dot/amx`, in its order."""
    found, above = [], []
    for before, name in re.findall(r"^((?:[│ ]   )*)[├└]── (\w+)/", PAGE, re.MULTILINE):
        above = [*above[: len(before) // 4], name]
        found.append("/".join(above))
    return found


def test_the_page_draws_every_folder_once():
    folders = [str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    assert sorted(drawn()) == sorted({*folders, "recipes", "studies"})


def test_arrows_go_down_and_never_sideways():
    place = {name: depth for depth, tier in enumerate(tiers()) for name in tier}
    bottom = len(tiers()) - 1
    wrong = [
        f"{one} imports {other}, in {sorted(files)}"
        for one, arrows in graph().items()
        if one not in OUTSIDE
        for other, files in arrows.items()
        # The four files at the bottom are no rooms: the table says which of them may use another.
        if place[other] <= place[one] and not place[one] == place[other] == bottom
    ]
    assert not wrong, "\n".join(wrong)


def test_no_arrow_is_missing_from_the_pages_table():
    basement = tiers()[-1]
    wrong = [
        f"{one} imports {other}, in {sorted(files)}; if that is meant, say so in docs/architecture.md"
        for one, arrows in graph().items()
        if one not in OUTSIDE
        for other, files in arrows.items()
        if other not in allowed()[one] and (one in basement or other not in basement)
    ]
    assert not wrong, "\n".join(wrong)


def files_imported(path: Path) -> set[str]:
    """The files of this package that a file's import statements name, those inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if is_file(name) else str(node.module) for name in inside}
    return {name for name in found if is_file(name)}


def is_file(name: str) -> bool:
    """Whether a dotted name is a file of this package; a folder's `__init__.py` is empty."""
    return name.startswith("regard.") and SOURCE.parent.joinpath(*name.split(".")).with_suffix(".py").is_file()


def test_no_files_import_each_other_in_a_circle():
    arrows = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): files_imported(path)
        for path in FILES
        if path.stem not in OUTSIDE
    }
    assert arrows["regard.attention.attend"] >= {"regard.attention.attended", "regard.attention.run"}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("name", ["data", "views"])
def test_the_folders_of_a_room_import_each_other_one_way(name):
    """A folder, or a file beside the folders, imports what lies below it and never what imports it."""
    arrows: dict[str, set[str]] = {}
    for path in sorted((SOURCE / name).rglob("*.py")):
        inside = arrows.setdefault(path.relative_to(SOURCE / name).parts[0].removesuffix(".py"), set())
        inside |= {other.split(".")[2] for other in files_imported(path) if other.startswith(f"regard.{name}.")}
    own = {place: others - {place} for place, others in arrows.items()}
    try:
        TopologicalSorter(own).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def raised(function: ast.FunctionDef) -> list[ast.Raise]:
    """What a function raises by itself, not in a function within it; a base class's NotImplementedError is no error."""
    waiting, found = list(ast.iter_child_nodes(function)), []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise) and not (
            isinstance(node.exc, ast.Name) and node.exc.id == "NotImplementedError"
        ):
            found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return found


def is_command(function: ast.FunctionDef) -> bool:
    """Whether it is a command of the program: its docstring is the command's help, and its errors are messages."""
    names = [
        one.func.id for one in function.decorator_list if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
    ]
    return "command" in names


@pytest.mark.parametrize("name", sorted({room(path) for path in FILES} - OUTSIDE))
def test_a_public_function_that_raises_says_what(name):
    silent = []
    for path in [path for path in FILES if room(path) == name]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for owner in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
            if isinstance(owner, ast.ClassDef) and owner.name.startswith("_"):
                continue
            for node in [node for node in owner.body if isinstance(node, ast.FunctionDef) and raised(node)]:
                if is_command(node):
                    continue
                text = ast.get_docstring(node) or ""
                if node.name in {"__init__", "__post_init__"}:
                    text += ast.get_docstring(owner) or ""
                if (not node.name.startswith("_") or node.name.endswith("__")) and "Raises:" not in text:
                    silent.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}")
    assert silent == []


def test_the_graph_sees_lazy_and_named_imports():
    code = (
        "from regard.errors import ConfigError\n"
        "def later():\n    from regard.views import page\n    import regard.tasks.core.load\n"
        "from importlib import import_module\nimport_module(f'regard.cli.{name}')\n"
    )
    assert {name.split(".")[1] for name in imports(ast.parse(code))} == {"errors", "views", "tasks", "cli"}
    assert graph()["__init__"].keys() >= {"attention", "tasks"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_is_short_and_its_annotations_are_values(path):
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= MOST_LINES, f"{lines} lines: a file is one idea; divide it"
    # Postponed annotations are strings, which the suite's run-time shape checks could not read.
    assert "from __future__ import annotations" not in text


def test_loops_tests_and_benchmarks_are_short_too():
    loops = [path for end in ("cpp", "hpp") for path in SOURCE.rglob(f"*.{end}")]
    files = loops + [path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in files}
    assert len(loops) > 10 and {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_what_the_command_line_reads_first_needs_no_torch():
    files = SOURCE.rglob("*settings.py")
    settings = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in files]
    light = [
        "regard",
        "regard.cli",
        "regard.cli.app",
        "regard.data.synthetic.phrases",
        "regard.tasks.core.config",
        *sorted(settings),
    ]
    code = (
        "import regard, sys\nassert regard.errors.ShapeError\n"
        f"for name in {light!r}:\n"
        "    __import__(name)\n    assert 'torch' not in sys.modules, name + ' imports torch'\n"
        "print(len(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > len(light)


def source_of(test: Path) -> Path | None:
    """The file that a test is about: of its own name, or of as many of its first words as name one.

    `tests/data/text/test_lines_long.py` is about `data/text/lines_long.py`, or else `data/text/lines.py`. The file is
    Python or C++; in `recipes` and `studies` it is a YAML file that begins with that name.
    """
    folder = SOURCE / test.relative_to(ROOT / "tests").parent
    words = test.stem.removeprefix("test_").split("_")
    for count in range(len(words), 0, -1):
        name = "_".join(words[:count])
        endings = ["*.yaml"] if folder.name in {"recipes", "studies"} else [".py", ".cpp", ".hpp"]
        for ending in endings:
            if found := sorted(folder.glob(name + ending)):
                return found[0]
    return None


def test_a_tests_file_is_found_from_the_file_that_it_tests():
    tests = ROOT / "tests"
    orphans = {str(path.relative_to(tests)) for path in tests.rglob("test_*.py") if source_of(path) is None}
    assert orphans == set(ABOUT_THE_WHOLE), "a test is called test_<file>[_<aspect>].py, in the folder of its file"


def test_the_source_of_a_test_is_the_longest_name_that_fits():
    tests = ROOT / "tests"
    assert source_of(tests / "data" / "text" / "test_lines.py") == SOURCE / "data" / "text" / "lines.py"
    assert source_of(tests / "data" / "text" / "test_hash_split_of_copies.py") == SOURCE / "data/text/hash_split.py"
    assert source_of(tests / "data" / "text" / "test_nothing.py") is None
    assert source_of(tests / "data" / "test_lines.py") is None


def test_no_folder_has_too_many_files():
    files = [path for end in ("py", "cpp", "hpp") for path in SOURCE.rglob(f"*.{end}") if path.name != "__init__.py"]
    counts = Counter(str(path.parent.relative_to(SOURCE)) for path in files if path.parent != SOURCE)
    crowded = {name: count for name, count in counts.items() if count > MOST_FILES and name not in LISTS}
    assert counts["cli"] > MOST_FILES and crowded == {}, "divide the folder by system"
