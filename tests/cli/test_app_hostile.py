"""What nobody should do to the program: it says what is wrong, and never shows a traceback."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys

import pytest

from regard.cli.app import app
from regard.cli.console import complain


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("results.json", "[1", "results.json is damaged"),
        ("results.json", "[1]", "does not hold a run's results"),
        ("results.json", '{"best": 3}', "results.json is damaged"),
        ("evaluations.json", "3", "no list of evaluations"),
        ("evaluations.json", '[{"data": "a"}]', "no list of evaluations"),
    ],
)
def test_compare_names_a_damaged_file(regard, run, copy, name, content, message):
    (copy / name).write_text(content)
    assert message in regard("compare", run, copy, code=1).stderr


def test_results_without_some_numbers_are_compared_by_the_others(regard, run, copy):
    (copy / "results.json").write_text('{"best": {"loss": 2.0}}')
    compared = json.loads(regard("compare", run, copy, "--format", "json").stdout)
    assert compared[1]["parameters"] is None and compared[1]["best loss"] == 2.0


def test_a_deeply_nested_tokenizer_is_damaged(regard, copy):
    (copy / "tokenizers" / "source" / "tokenizer.json").write_text("[" * 100_000)
    assert "tokenizer.json is damaged" in regard("translate", copy, "a", code=1).stderr


def test_an_ended_run_without_checkpoints_is_not_trained_over(regard, copy):
    shutil.rmtree(copy / "checkpoints")
    weights = (copy / "model.safetensors").read_bytes()
    assert "its checkpoints are gone" in regard("train", "--resume", copy, code=1).stderr
    assert (copy / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("arguments", [["translate", "a", "--out"], ["evaluate", "--predictions"]])
def test_a_folder_is_not_written_over_and_nothing_is_computed_first(regard, run, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr(
        "regard.models.seq2seq.recurrent.RecurrentTranslator.encode", lambda *_: pytest.fail("it computes")
    )
    said = regard(arguments[0], run, *arguments[1:], tmp_path, code=1).stderr
    assert f"error: {tmp_path}: is a folder" in said and "Errno" not in said and ".part" not in said


@pytest.mark.parametrize("arguments", [["score", 0, 1, "--out"], ["align", 0, 1, "--gold", 2, "--out"],
                                       ["evaluate", "--source", 0, "--target", 1, "--links", 2, "--predictions"],
                                       ["translate", 0, "--out"]])  # fmt: skip
def test_no_input_is_written_over(regard, run, tmp_path, arguments):
    files = [tmp_path / name for name in ("en", "fr", "links")]
    for file, text in zip(files, ("noon\n", "midi\n", "0-0\n"), strict=True):
        file.write_text(text)
    verb, *rest = (files[one] if isinstance(one, int) else one for one in arguments)
    for file in {one for one in rest if one in files}:
        assert f"{file} is the input itself" in regard(verb, run, *rest, file, code=2).stderr
    assert [file.read_text() for file in files] == ["noon\n", "midi\n", "0-0\n"]


def test_a_folder_is_not_translated(regard, run, tmp_path):
    assert "is a folder; a text or a file" in regard("translate", run, tmp_path, code=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "other", "a", "b"],
        ["align", "other", "a", "b"],
        ["align", "run", "a", "b", "--reverse", "other"],
        ["translate", "run", "a", "--with", "other"],
        ["evaluate", "run", "--with", "other"],
    ],
)
def test_a_run_of_another_task_is_named(regard, run, tmp_path, arguments):
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.yaml").write_text("task: tagging\n")
    said = regard(*({"run": run, "other": other}.get(one, one) for one in arguments), code=2).stderr
    assert said == f"error: {other} is a run of tagging; this needs one of translation\n"


def test_what_is_neither_a_task_nor_settings_is_named(regard, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tagging").mkdir()
    (tmp_path / "settings.txt").write_text("task: tagging\n")
    for name in (tmp_path, "settings.txt"):
        said = regard("train", name, code=2).stderr
        assert f"{name} is neither a task nor a file of settings, whose name ends in .yaml" in said
    assert "no task is named 'tagginh'. Did you mean 'tagging'?" in regard("train", "tagginh", code=2).stderr
    assert "no sentences to train on" in regard("train", "tagging", code=2).stderr  # the task, whatever lies there


def test_no_message_steers_a_terminal(regard, run, capsys):
    hostile = "\x1b[2J\x07\x9b\u202e\u2066.txt"
    said = regard("translate", run, hostile, code=1).stderr
    assert said.startswith(r"error: \x1b[2J\x07\x9b\u202e\u2066.txt: no such file.")
    assert all(character.isprintable() or character == "\n" for character in said)
    complain("שלום é 👩\u200d👧\tb\nc 机")  # what is only read stays as it is
    assert capsys.readouterr().err == "error: שלום é 👩\u200d👧\tb\nc 机\n"


@pytest.mark.parametrize("fails", ["write", "flush"])
def test_a_full_disk_is_said_of_standard_output(monkeypatch, capsys, fails):
    class Full(io.StringIO):
        def _fail(self, *_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    setattr(Full, fails, Full._fail)
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as caught:
        patch.setattr("sys.stdout", Full())
        app(["worked", "W2"])
    assert caught.value.code == 1
    assert capsys.readouterr().err == "error: standard output: No space left on device\n"


def test_a_name_with_marks_of_the_shell_is_quoted_in_advice(regard, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "pipe it in: echo 'a;b$c.txt' | regard" in regard("translate", run, "a;b$c.txt", code=1).stderr
    (tmp_path / "a;b").mkdir()
    assert "pipe it in: echo 'a;b' | regard" in regard("translate", run, "a;b", code=1).stderr


def test_show_says_that_it_reads_no_file(regard, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert regard("show", run, "noon").stderr == ""
    (tmp_path / "noon").write_text("midnight\n")
    shown = regard("show", run, "noon")
    assert "noon →" in shown.stdout and "head -n 1 noon | regard … -" in shown.stderr
    assert regard("show", run, "-", stdin="noon\n").stderr == ""


def test_bounds_that_no_machine_has(regard, run):
    """Millions of threads end the process without a word; a model that never ends fills the memory."""
    assert "--threads" in regard("translate", run, "a", "--threads", 10**8, code=2).stderr
    assert "search.max_length" in regard("translate", run, "a", "--max-length", 10**8, code=2).stderr
    assert "threads" in regard("train", "translation", "threads=99999999", code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--query", "99999999999,99999999999,64"],
        ["--key", "1,1,9999999999999999999999"],
        ["--mask", "padding('a')"],
        ["--mask", "window('a','b')"],
    ],
)
def test_explain_says_what_it_cannot_take(regard, arguments):
    assert arguments[1] in regard("explain", *arguments, code=2).stderr


def test_too_little_memory_is_no_fault_of_the_program(regard):
    said = regard("explain", "--query", "1,2,3", "--key", "1,2,3", "--score", f"general(rank={10**14})", code=1).stderr
    assert "not enough memory" in said and "fault" not in said


@pytest.mark.parametrize(
    ("closing", "arguments", "message"),
    [(">&-", "a", "standard output is closed"), ("<&-", "-", "standard input is closed")],
)
@pytest.mark.skipif(os.name != "posix", reason="closes a stream by the shell")
def test_a_closed_stream_is_named(run, closing, arguments, message):
    program = f'"{sys.executable}" -m regard translate "{run}" {arguments} {closing}'
    done = subprocess.run(program, shell=True, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1 and message in done.stderr and "fault" not in done.stderr


def test_too_few_pairs_says_how_many_count(regard, tmp_path):
    for side, line in (("a", "\n"), ("b", "x\n")):
        (tmp_path / side).write_text(line * 30)
    said = regard("train", "translation", "--source", tmp_path / "a", "--target", tmp_path / "b", code=1).stderr
    assert "30 pairs, 0 of them different and with words on both sides" in said


def test_an_interrupt_while_the_program_starts_is_no_traceback(monkeypatch):
    from regard.cli import main

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.cli.app.run", interrupted)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130
