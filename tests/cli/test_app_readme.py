"""Every `regard …` line of the documents can be called as it is written."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from regard.cli.app import app
from regard.errors import ConfigError
from regard.tasks.core.config import check, parse_assignments
from regard.tasks.core.settings import settings_of, task_names

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if path.name != "CHANGELOG.md"]
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ENDS = {"|", ">", "<", ">>", "&&", ";", "||", "2>"}


def commands(text: str) -> list[list[str]]:
    """The arguments of each call of `regard` in the code blocks, pipes and redirections left out."""
    found = []
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = _words(line.strip().removeprefix("$ "))
            for start, word in enumerate(words):
                begins = start == 0 or words[start - 1] in {"|", "&&", ";", "||"}
                if word == "regard" and begins:
                    rest = words[start + 1 :]
                    end = next((at for at, one in enumerate(rest) if one in _ENDS), len(rest))
                    found.append(rest[:end])
    return found


def _words(line: str) -> list[str]:
    reader = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    reader.commenters = "#"
    try:
        return list(reader)
    except ValueError:  # not shell: Python, a table, a sentence with an apostrophe
        return []


def parse(arguments: list[str]) -> None:
    """Let the program read its arguments, and check the settings among them, without running the command."""
    _check_settings(arguments)
    group = get_command(app)
    with group.make_context("regard", list(arguments)) as context:
        if arguments[:1] and not arguments[0].startswith("-"):
            name, command, rest = group.resolve_command(context, list(arguments))
            command.make_context(name, rest, parent=context)


def _check_settings(arguments: list[str]) -> None:
    """KEY=VALUE of a training is a setting of its task; that of an evaluation one of some task's tests."""
    name, *rest = arguments or [""]
    tree = parse_assignments([one for one in rest if re.match(r"[a-z_.]+=", one)])
    if name == "train" and rest and rest[0] in task_names():
        check(settings_of(rest[0]), tree)
    elif name == "evaluate" and tree:
        kinds = [settings_of(task).tests for task in task_names()]
        fitting = [kind for kind in kinds if tree.keys() <= kind.model_fields.keys()]
        assert fitting, f"no task is tested on {', '.join(tree)}"
        check(fitting[0], tree)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_line_of_the_documents_parses(document):
    for arguments in commands(document.read_text(encoding="utf-8")):
        try:
            parse(arguments)
        except SystemExit as stop:
            assert stop.code == 0, arguments
        except Exception as error:
            if type(error).__name__ == "Exit" and getattr(error, "exit_code", 1) == 0:  # --help and --version leave
                continue
            pytest.fail(f"{document.name}: regard {shlex.join(arguments)}: {type(error).__name__}: {error}")


def test_the_extraction_finds_calls_in_pipes_and_over_line_ends():
    text = "```sh\n$ cat a | regard translate run - --beam 5 > out  # why\nregard demo \\\n  --to zh\n```\nregard no\n"
    assert commands(text) == [["translate", "run", "-", "--beam", "5"], ["demo", "--to", "zh"]]


def test_a_wrong_line_is_found():
    with pytest.raises(Exception, match="No such option"):
        parse(["demo", "--too", "zh"])
    with pytest.raises(Exception, match="No such command"):
        parse(["dmo"])
    with pytest.raises(AssertionError, match="no task is tested on length"):
        parse(["evaluate", "runs/copy", "length=40"])
    with pytest.raises(ConfigError, match=r"model\.widht"):
        parse(["train", "algorithms", "model.widht=40"])


@pytest.mark.parametrize("name", sorted(get_command(app).commands))
def test_every_example_of_the_help_parses(name):
    epilog = get_command(app).commands[name].epilog
    calls = commands(f"```\n{epilog}\n```")
    assert calls and all(call[0] == name or {call[0], name} == {"recipes", "reproduce"} for call in calls)
    for arguments in calls:
        try:
            parse(arguments)
        except Exception as error:
            pytest.fail(f"regard {shlex.join(arguments)}: {error}")
