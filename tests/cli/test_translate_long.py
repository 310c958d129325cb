"""A long file, translated into a file: after kills the result is that of an unbroken run, byte for byte."""

import gzip
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from regard.cli.app import app
from regard.data.pairs.parallel_text import read_tsv
from regard.tasks.core.growing import GrowingFile


@pytest.fixture
def long(files, tmp_path, monkeypatch):
    """13 lines, packed, one of them empty; four at a time are made certain: two batches of two."""
    monkeypatch.setattr("regard.cli.translate._CHUNK", 2)
    lines = (files / "test.en").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress("\n".join([*lines[:6], "", *lines[6:12]]).encode()))
    return path


SHORT = ["--batch", 2, "--max-length", 2, "--threads", 1]


def _call(arguments):
    """The program, a little slow after each moment that is made certain: fast machines must not end before the kill."""
    keep = GrowingFile.keep

    def slowly(self, items, marked):
        keep(self, items, marked)
        time.sleep(0.1)

    GrowingFile.keep = slowly  # in this process alone
    app(arguments, standalone_mode=False)


def killed(arguments, state, lines, pause):
    """Start the program, wait until so many lines are kept and a moment longer, and kill it; the lines then kept."""
    program = multiprocessing.get_context("fork").Process(target=_call, args=(list(map(str, arguments)),))
    program.start()
    while program.is_alive() and not (state.exists() and json.loads(state.read_text())["items"] >= lines):
        time.sleep(0.001)
    time.sleep(pause)
    assert program.is_alive(), "it ended before it was killed"
    os.kill(program.pid, signal.SIGKILL)
    program.join()
    return json.loads(state.read_text())["items"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks, which only POSIX systems do")
def test_killed_twice_it_continues_byte_for_byte(regard, run, long, tmp_path):
    """B33's promise for translation; sampled, so that each line's draws keep to its number in the whole file."""
    plain = ["translate", run, long, *SHORT, "--sample", "--seed", 3]
    whole = regard(*plain).stdout
    draw, broken = random.Random(), tmp_path / "broken"  # other moments in each run of this test
    for lines in (4, 8):
        kept = killed([*plain, "--out", broken, "--quiet"], tmp_path / "broken.part.json", lines, draw.random() / 50)
        assert kept >= lines and not broken.exists()
    message = regard(*plain, "--out", broken).stderr
    assert f"holds {kept} of 13 lines; continuing after them." in message
    assert broken.read_text(encoding="utf-8") == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "in.gz"]


def test_stopped_by_the_user_even_one_list_of_json_continues(regard, run, long, tmp_path, monkeypatch):
    from regard.tasks.translation.predictor import TranslationPredictor

    plain = ["translate", run, long, *SHORT, "--format", "json"]
    stream = TranslationPredictor.stream

    def stopping(self, *arguments, **options):
        for one in stream(self, *arguments, **options):
            yield one
            if one.line == 10:
                raise KeyboardInterrupt

    monkeypatch.setattr(TranslationPredictor, "stream", stopping)
    assert "8 of 13 lines are kept in" in regard(*plain, "--out", tmp_path / "out", code=130).stderr
    assert "another search.beam" in regard(*plain, "--out", tmp_path / "out", "--beam", 2, code=1).stderr
    monkeypatch.setattr(TranslationPredictor, "stream", stream)
    regard(*plain, "--out", tmp_path / "out")
    written = (tmp_path / "out").read_text(encoding="utf-8")
    assert written == regard(*plain).stdout
    assert [one["line"] for one in json.loads(written)] == list(range(1, 14))


_MEASURED = """
import resource, sys
from regard.cli.app import app
app(sys.argv[1:], standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is measured in other units elsewhere")
def test_ten_times_the_lines_take_no_more_memory(run, files, tmp_path):
    """100,000 lines beside 10,000, each in a process of its own: the peaks differ by less than a tenth."""
    lines = (files / "train.en").read_text(encoding="utf-8").splitlines()
    peaks = []
    for count in (10_000, 100_000):
        text = tmp_path / f"{count}.txt"
        text.write_text("".join(lines[at % len(lines)] + "\n" for at in range(count)), encoding="utf-8")
        out = tmp_path / f"{count}.out"
        arguments = ["translate", run, text, "--out", out, "--max-length", "2", "--threads", "1", "--quiet"]
        program = [sys.executable, "-c", _MEASURED, *map(str, arguments)]
        peaks.append(int(subprocess.run(program, check=True, capture_output=True, text=True).stdout))
        with open(out, encoding="utf-8") as written:
            assert sum(1 for _ in written) == count
    assert peaks[1] < 1.1 * peaks[0], peaks


def test_lines_that_were_cut_before_a_kill_are_reported_again(regard, run, long, tmp_path, monkeypatch):
    """B32: the exit code is of the whole file, not of what came after a kill."""
    long.write_text("two " * 50 + "\n" + "at noon\n" * 5)
    plain = ["translate", run, long, *SHORT, "--out", tmp_path / "out"]
    monkeypatch.setattr("regard.cli.outputs._plain", lambda one, align: 1 / (5 - one.line) and one.text)
    assert "division by zero" in regard(*plain, code=1).stderr
    monkeypatch.undo()
    monkeypatch.setattr("regard.cli.translate._CHUNK", 2)
    message = regard(*plain, code=1).stderr
    assert "holds 4 of 6 lines" in message and "1 of these lines were cut" in message
    assert (tmp_path / "out").read_text().count("\n") == 6


def test_an_output_that_is_the_input_is_refused(regard, run, files, tmp_path):
    text = tmp_path / "text"
    text.write_text("at noon\n")
    (tmp_path / "link").symlink_to(text)
    for name in ("text", "link"):
        assert "is the input itself" in regard("translate", run, text, "--out", tmp_path / name, code=2).stderr
    assert text.read_text() == "at noon\n"


def test_n_best_lists_and_tsv(regard, run, tmp_path):
    """`index ||| text ||| feature ||| score` from 0; source<TAB>text that reads back as pairs; tabs become spaces."""
    lines = "at noon\n\nfor two\tdays\n"
    options = ["--beam", 3, "--n-best", 2, "--min-length", 1, "--max-length", 3]
    best = regard("translate", run, "-", *options, "--format", "nbest", stdin=lines).stdout.splitlines()
    found = [json.loads(one) for one in
             regard("translate", run, "-", *options, "--format", "jsonl", stdin=lines).stdout.splitlines()]  # fmt: skip
    expected = [
        f"{one['line'] - 1} ||| {output['text']} ||| log_probability= {output['log_probability']:.6g} ||| "
        f"{output['score']:.6g}"
        for one in found
        for output in one["outputs"]
    ]
    assert best == expected and len(best) == 5 and best[2] == "1 |||  ||| log_probability= 0 ||| 0"
    linked = regard("translate", run, "at noon", "--format", "nbest", "--align", "words", "--max-length", 2).stdout
    assert linked.count(" ||| ") == 4
    out = tmp_path / "back.tsv"
    short = ["--max-length", 2]
    out.write_text(regard("translate", run, "-", "--format", "tsv", *short, stdin=lines).stdout, encoding="utf-8")
    assert [pair.source for pair in read_tsv(out)] == ["at noon", "", "for two days"]
    assert [pair.target for pair in read_tsv(out)] == regard(
        "translate", run, "-", *short, stdin=lines
    ).stdout.splitlines()
    several = [*short, "--sample", "--beam", 4, "--n-best", 4, "--format", "nbest"]
    drawn = regard("translate", run, "at noon", *several).stdout
    assert 1 < drawn.count("\n") <= 4 and len(set(drawn.splitlines())) == drawn.count("\n")
    assert "choose --format json" in regard("translate", run, "a", "--format", "tsv", "--align", "soft", code=2).stderr
