"""`regard train algorithms`, `solve`, `evaluate` and `show`, on a tiny machine."""

import json

import pytest

TINY = ["data.bits=2", "data.longest=3", "data.validation=5", "model.width=5", "model.slots=7", "model.slot_dim=3",
        "training.steps=3", "training.optimizer=rmsprop"]  # fmt: skip


@pytest.fixture(scope="module")
def copier(regard, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "copy"
    regard("train", "algorithms", "--run", run, "--threads", 1, "--quiet", *TINY)
    return run


def test_one_line_in_is_one_line_out_k8(regard, copier, tmp_path):
    given = tmp_path / "given.txt"
    given.write_text("01 11\n\n10\n", encoding="utf-8")
    answers = regard("solve", copier, given).stdout
    assert [len(line.split()) for line in answers.splitlines()] == [2, 0, 1]
    assert all(set(line) <= set("01 ") for line in answers.splitlines())
    assert regard("solve", copier, "-", stdin=given.read_bytes()).stdout == answers
    assert regard("solve", copier, "01 11").stdout == answers.splitlines(keepends=True)[0]
    regard("solve", copier, given, "--out", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == answers
    assert "is the input itself" in regard("solve", copier, given, "--out", given, code=2).stderr
    given.write_bytes(b"")
    nothing = regard("solve", copier, given, "--out", tmp_path / "none.txt")
    assert nothing.stderr == f"{given} has no lines; there is nothing to solve\n" and not nothing.stdout
    assert (tmp_path / "none.txt").read_bytes() == b""
    assert regard("solve", copier, given, "--quiet").stderr == ""


def test_a_bad_line_is_named(regard, copier, tmp_path):
    given = tmp_path / "given.txt"
    given.write_text("01 11\n01 1x\n", encoding="utf-8")
    message = regard("solve", copier, given, "--out", tmp_path / "out.txt", code=1).stderr
    assert f"{given}, line 2: row 2 is '1x'; expected 2 bits" in message and not (tmp_path / "out.txt").exists()
    assert "standard input, line 1" in regard("solve", copier, stdin=b"0\n", code=1).stderr


def test_it_is_measured_and_shown(regard, copier, tmp_path):
    evaluation = json.loads(regard("evaluate", copier, "sequences=5", "lengths=[6, 9]", "--format", "json").stdout)
    assert [row["length"] for row in evaluation["lengths"]] == ["1–3", "6", "9"]
    assert evaluation["measures"]["exact_twice"] == 0
    assert "Did you mean 'sequences'" in regard("evaluate", copier, "sequence=5", code=2).stderr
    page = tmp_path / "memory.html"
    regard("show", copier, "--length", 3, "--out", page)
    assert all(head in page.read_text(encoding="utf-8") for head in ("read 0", "write 0", "memory: "))
    shown = regard("show", copier, "01 11", "--lang", "zh").stdout
    assert "write 0" in shown and "存储器" in shown
    assert "expected 2 bits" in regard("show", copier, "0", code=1).stderr


def test_only_algorithms_are_solved(regard, run):
    assert "is a run of translation; this needs one of algorithms" in regard("solve", run, "01", code=2).stderr
