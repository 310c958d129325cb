"""Commands ask a run's task for what it can do; none of them knows a task by its name."""

import ast
from pathlib import Path

from regard.tasks.core.settings import settings_of, task_names

CLI = Path(__file__).resolve().parents[2] / "src" / "regard" / "cli"


def named(text: str) -> list[tuple[int, str]]:
    """Line and value of each string that is a task's name by itself, as `task == "pointing"` has one."""
    names = set(task_names())
    return [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    ]


def test_no_command_names_a_task():
    found = {path.name: named(path.read_text(encoding="utf-8")) for path in sorted(CLI.glob("*.py"))}
    assert len(found) > 20
    # The task that `regard schema` describes where none is given.
    assert [value for _, value in found.pop("schema.py")] == ["translation"]
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_name_would_be_found():
    assert named('if task == "pointing":\n    run("masked")\n# "reading"\n') == [(1, "pointing"), (2, "masked")]


def test_every_task_has_a_verb_that_is_a_command():
    assert all((CLI / f"{settings_of(name).verb}.py").is_file() for name in task_names())
