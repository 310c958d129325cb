"""The benchmarks run at toy size, and compare what is equal: both sides give one loss and one translation."""

import gc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
needs_joeynmt = pytest.mark.skipif(importlib.util.find_spec("joeynmt") is None, reason="JoeyNMT is not installed")


@pytest.fixture
def benchmarks(monkeypatch):
    """The folder's files as they are when one of them is run."""
    import torch

    threads = torch.get_num_threads()
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    torch.set_num_threads(threads)
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


@needs_joeynmt
def test_training_beside_joeynmt(benchmarks, capsys):
    """Each row: both sides' speed and peak memory, and ratios; the machine is told."""
    import train

    train.main(["--quick", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["machine"]["threads"] == 1
    assert [row["model"] for row in report["rows"]] == list(train.VARIANTS)
    for row in report["rows"]:
        assert all(row[f"{side} {what}"] > 0 for side in ("joeynmt", "regard") for what in ("tokens/s", "MiB"))
        assert row["ratio, processor"] > 0
        assert row["ratio, clock"] > 0


@needs_joeynmt
def test_models_that_differ_are_not_compared(benchmarks, monkeypatch):
    import joey
    import train

    right = joey.weights_of
    monkeypatch.setattr(joey, "weights_of", lambda model: {name: 1.01 * held for name, held in right(model).items()})
    with pytest.raises(SystemExit, match="the two models differ"):
        train.main(["--quick"])


@needs_joeynmt
def test_translating_beside_joeynmt(benchmarks, tmp_path, capsys):
    """The table is printed once both searches have found the same."""
    import translate

    source = tmp_path / "source.txt"
    source.write_text("a b c d\ne f\ng h i\n")
    translate.main(["--quick", "--source", str(source)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[0] == "model"
    assert len(lines) == 2 + len(translate.VARIANTS)


def test_a_row_has_a_process_of_its_own(benchmarks):
    """What it leaves behind is gone with it; how it ends is told here; one that dies is not waited for."""
    from turns import alone

    here, left = os.getpid(), []
    assert alone(lambda more: left.append(more) or [*left, os.getpid() != here], 7) == [7, True]
    assert left == []
    with pytest.raises(SystemExit, match="the two differ"):
        alone(sys.exit, "the two differ")
    with pytest.raises(EOFError, match="its exit code is 7"):
        alone(os._exit, 7)
    with pytest.raises(EOFError, match="ended by signal 9 .*memory"):
        alone(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert len(alone(lambda: b"x" * 2**24)) == 2**24  # more than a pipe holds


def ends(process: int) -> bool:
    """Whether a process ends within some seconds."""
    status = Path(f"/proc/{process}/stat")
    for _ in range(200):
        try:
            if status.read_text().rsplit(")", 1)[1].split()[0] == "Z":  # ended; its parent has not asked how
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


WAITING = """
import os, signal, time, turns
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins deaf to it
def row():
    def memory():
        print(os.getppid(), os.getpid(), flush=True)
        time.sleep(600)
    turns.alone(memory)
turns.alone(row)
"""
"""A row that sees its peak memory in a child of its own."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for the end of a process's parent")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_row_outlives_the_benchmark(number):
    """Ctrl-C that reaches the benchmark alone, and its death: the row's processes end, too."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    with subprocess.Popen([sys.executable, "-c", WAITING], env=environment, stdout=-1, stderr=-3, text=True) as child:
        try:
            row, memory = map(int, child.stdout.readline().split())
            child.send_signal(number)
            assert child.wait(30) == -number
            assert ends(row) and ends(memory)
        finally:
            child.kill()


def test_rounds_and_rows_that_are_none_are_reported(benchmarks):
    import dot
    import start

    with pytest.raises(SystemExit, match="no row has that in its name"):
        dot.main(["--quick", "--only", "nothing"])
    with pytest.raises(SystemExit, match="one at least"):
        dot.in_turns({}, rounds=0)
    with pytest.raises(SystemExit):
        start.main(["--rounds", "0"])


def test_additive_attention_beside_the_broadcast(benchmarks, capsys):
    """Each row: the broadcast's time, the ratio of each other side, and the peak of all; both passes."""
    import additive
    from regard.kernels.additive import additive as kernel

    additive.main(["--quick", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert len(report["rows"]) == 2 * 2 * len(additive.TOY)
    assert all(row["torch ratio"] > 0 and row["naive MiB"] > 0 for row in report["rows"])
    assert "serves" not in vars(kernel.LIBRARY)  # what the benchmark puts in its place is gone


def test_additive_attention_that_differs_is_not_compared(benchmarks, monkeypatch):
    import additive

    right = additive.broadcast
    monkeypatch.setattr(additive, "broadcast", lambda *given: 1.01 * right(*given))
    with pytest.raises(SystemExit, match="differ"):
        additive.main(["--quick", "--no-memory"])


def test_dot_products_beside_torch(benchmarks, capsys):
    """A row a way, once both sides have given one context."""
    import dot

    dot.main(["--quick", "--json", "--only", "lengths and causal"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["work"] for row in rows] == ["lengths and causal, T 260", "lengths and causal, T 260, with gradients"]
    assert all(row["ratio, processor"] > 0 and row["torch ms"] > 0 for row in rows)


def test_dot_products_that_differ_are_not_compared(benchmarks, monkeypatch):
    import dot

    right = dot.sdpa
    monkeypatch.setattr(dot, "sdpa", lambda *given, **named: 1.01 * right(*given, **named))
    with pytest.raises(SystemExit, match="the two contexts differ"):
        dot.main(["--quick", "--only", "lengths and causal"])


def test_attention_on_a_gpu_is_not_measured_without_one(benchmarks, monkeypatch, capsys):
    import gpu

    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        gpu.main(["--quick"])
    assert end.value.code == 2
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")  # on purpose
def test_rows_of_a_gpu_as_a_processor_has_them(benchmarks, capsys):
    """All sides give one context; each has a ratio but where torch has no such call."""
    import gpu

    gpu.main(["--quick", "--json"], device="cpu")
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 13
    for row in rows:
        assert row["regard ms"] > 0 and row["naive ratio"] > 0
        assert (row["sdpa ratio"] == "-") == row["work"].startswith("additive")
        assert (row["flex ratio"] == "-") == (row["work"].startswith("additive") or "gradients" in row["work"])


def test_rows_of_a_gpu_end_in_time(benchmarks, capsys):
    import gpu

    gpu.main(["--quick", "--json", "--only", "plain", "--minutes", "0.00001"], device="cpu")
    captured = capsys.readouterr()
    assert all(row["regard ms"] == "-" for row in json.loads(captured.out)["rows"])
    assert "2 of 2 rows were not measured" in captured.err


def test_a_gpus_sides_that_differ_are_not_compared(benchmarks, monkeypatch):
    import gpu

    right = gpu.naive
    monkeypatch.setattr(gpu, "naive", lambda *given: 1.1 * right(*given))
    with pytest.raises(SystemExit, match="contexts of regard and naive differ"):
        gpu.main(["--quick", "--only", "window"], device="cpu")


def test_scaling_writes_rows_as_they_come_and_draws_them(benchmarks, tmp_path, capsys):
    """Two processes of toy size: rows, peaks and slopes; read again, they give the same table."""
    import scaling

    rows, picture = tmp_path / "rows.json", tmp_path / "lines.svg"
    scaling.main(["--quick", "--minutes", "1", "--json", str(rows), "--picture", str(picture)])
    report = json.loads(rows.read_text())
    assert {row["side"] for row in report["rows"]} == {"regard", "all weights"}
    assert {row["kind"] for row in report["rows"]} == {"dot", "linear causal"}
    timed = [row for row in report["rows"] if "stopped" not in row]
    assert timed and all(row["seconds"] > 0 and 0 < row["percent of the limit"] < 1000 for row in timed)
    assert all(report["peaks"][0][what] > 1e6 for what in ("operations", "divisions"))
    assert "<svg" in picture.read_text()
    table = capsys.readouterr().out
    assert "% of limit" in table and "billion operations a second" in table
    scaling.main(["--read", str(rows)])
    assert capsys.readouterr().out == table


def test_scaling_knows_slopes_and_stops_before_memory_ends(benchmarks, monkeypatch):
    """A line of slope 2 in its upper half; what would not fit is told and not tried."""
    import scaling

    line = [{"number": 2**power, "seconds": 4.0**power if power > 3 else 9.0} for power in range(8)]
    assert scaling.slope(line, "seconds") == pytest.approx(2.0)
    monkeypatch.setattr(scaling, "free", lambda: 2**18)
    report = {"side": "all weights", "threads": 1, "pages": False, "quick": True, "best": {}}
    [row] = scaling.one_series("dot", "length", True, report, float("inf"))
    assert row["stopped"] == "memory" and row["number"] == 128
    monkeypatch.setattr(scaling, "free", lambda: 2**40)
    [row] = scaling.one_series("dot", "length", True, report, 0.0)
    assert row["stopped"] == "time"


@pytest.mark.parametrize("name", ["linear", "local"])
def test_linear_and_local_attention_beside_what_they_replace(benchmarks, capsys, name):
    """A row each, and what the benchmark puts in the compiler's place is gone."""
    from regard.kernels.linear import linear
    from regard.kernels.local import loops

    benchmark = importlib.import_module(name)
    benchmark.main(["--quick", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == {"linear": 3, "local": 4}[name]
    kind = {"linear": "parts", "local": "torch"}[name]
    assert all(row[f"{kind} ratio"] > 0 and row[f"{kind} MiB"] >= 0 for row in rows)
    assert "serves" not in vars(linear.LIBRARY) and "serves" not in vars(loops.LIBRARY)


def test_local_attention_that_differs_is_not_compared(benchmarks, monkeypatch):
    import local

    right = local.all_keys
    monkeypatch.setattr(local, "all_keys", lambda *given: 1.01 * right(*given))
    with pytest.raises(SystemExit, match="differ"):
        local.main(["--quick", "--no-memory"])


def test_a_recurrent_step_beside_torchs(benchmarks, capsys):
    """A row for each model and length: three sides' speed and peak, once all have given one loss."""
    import recurrent_step

    recurrent_step.main(["--quick", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    names = list(recurrent_step.VARIANTS)
    assert [row["model"] for row in rows] == [name for name in names for _ in range(len(rows) // len(names))]
    for row in rows:
        assert all(
            row[f"{side} {what}"] > 0 for side in ("plain", "unpadded", "regard") for what in ("tokens/s", "MiB")
        )
        assert row["ratio, processor"] > 0 and row["to unpadded, clock"] > 0


def test_recurrent_models_that_differ_are_not_compared(benchmarks, monkeypatch):
    import recurrent_step

    right = recurrent_step.Plain.forward
    monkeypatch.setattr(recurrent_step.Plain, "forward", lambda self, batch: 1.01 * right(self, batch))
    with pytest.raises(SystemExit, match="the two models differ"):
        recurrent_step.main(["--quick"])


def test_turns_are_taken_in_both_orders(benchmarks):
    """One round more than counted, the order reversed each time; medians are of what was counted."""
    import turns

    calls = []
    seconds = turns.in_turns({"one": lambda: calls.append(1), "other": lambda: calls.append(2)}, rounds=2)
    assert calls == [1, 2, 2, 1, 1, 2]
    assert set(seconds) == {"one", "other"}
    assert all(0 <= taken["clock"] < 1 for taken in seconds.values())


def test_peak_memory_of_a_call_that_fails_is_no_wait(benchmarks, capfd):
    import turns

    with pytest.raises(EOFError):
        turns.peak_mebibytes(lambda: 1 / 0)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_peak_memory_is_of_the_call_alone(benchmarks):
    import torch

    import turns

    held = torch.ones(2**22)  # 16 MiB, before the call
    assert 30 < turns.peak_mebibytes(lambda: held + torch.ones(2**22)) < 60  # two of that size within it
    garbage = [torch.ones(2**22)]
    garbage.append(garbage)  # so that it lasts until it is looked for
    del garbage
    assert 30 < turns.peak_mebibytes(lambda: (gc.collect(), held + torch.ones(2**22))) < 60


def test_what_starting_takes(benchmarks, monkeypatch, capsys):
    """A row a call, by that of torch; a call that fails is not taken for a quick one."""
    import start

    quick = {"import torch": [sys.executable, "-c", "x = sum(range(10**6))"], "python": start.CALLS["python"]}
    monkeypatch.setattr(start, "CALLS", quick)
    start.main(["--json", "--rounds", "1"])
    theirs, ours = json.loads(capsys.readouterr().out)["rows"]
    assert theirs["by import torch, processor"] == theirs["by import torch, clock"] == 1
    assert ours["clock ms"] >= ours["processor ms"] / 2 > 0
    monkeypatch.setattr(start, "CALLS", quick | {"python": [sys.executable, "-c", "import nothing_of_this_name"]})
    with pytest.raises(SystemExit, match="import nothing_of_this_name failed"):
        start.main(["--rounds", "1"])
