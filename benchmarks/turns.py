"""Things measured in turns, in one process, so that whatever else the machine does falls on all of them alike.

Each row of a table has a process of its own: memory that an earlier row has freed is quicker to get than new memory,
and would make the time of whatever asks for much of it depend on the rows before.
"""

import ctypes
import gc
import json
import multiprocessing
import os
import platform
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Sides = dict[str, Callable[[], Any]]


def in_turns(sides: Sides, rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of each side, of processor time and of the clock, after one round that is not counted."""
    if rounds < 1:
        raise SystemExit("--rounds: one at least is needed for a median")
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        # Every other round goes backwards: no side is always the one that follows a certain other.
        for name in list(sides)[:: -1 if number % 2 else 1]:
            processor, clock = time.process_time(), time.perf_counter()
            sides[name]()
            if number:
                seconds[name].append((time.process_time() - processor, time.perf_counter() - clock))
    kinds = ("processor", "clock")
    return {
        name: {kind: statistics.median(each) for kind, each in zip(kinds, zip(*taken, strict=True), strict=True)}
        for name, taken in seconds.items()
    }


def beside_first(sides: Sides, rounds: int, memory: bool) -> dict[str, float]:
    """Of a row: the first side's milliseconds, each other one's time by it, of the processor; and all peaks in MiB."""
    taken = {name: kinds["processor"] for name, kinds in in_turns(sides, rounds).items()}
    first, *others = taken
    row = {f"{first} ms": 1000 * taken[first]} | {f"{name} ratio": taken[name] / taken[first] for name in others}
    if memory:
        row |= {f"{name} MiB": peak_mebibytes(side) for name, side in sides.items()}
    return row


def alone(make: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives in a child of this process; its `SystemExit` is raised here.

    The child ends with this process, however that ends, and when the wait for it is broken off.

    Raises:
        EOFError: the child ended and gave nothing; it says how.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    parent = os.getpid()

    def made() -> None:
        end_with(parent)
        try:
            theirs.send(make(*arguments))
        except SystemExit as end:
            theirs.send(end)

    child = context.Process(target=made)
    # Done here, and what is alive set aside: a collection in the child would copy every page of this process.
    gc.collect()
    held = gc.get_freeze_count()
    gc.freeze()
    try:
        child.start()
    finally:
        if not held:  # else this is such a child itself
            gc.unfreeze()
    theirs.close()  # a child that failed is then an end of file here, not a wait
    try:
        given = ours.recv()
    except EOFError:
        child.join()
        raise EOFError(f"a row's process gave nothing; {_ending(child.exitcode or 0)}") from None
    except BaseException:  # such as Ctrl-C, which need not have reached the child
        child.kill()
        raise
    finally:
        child.join()
        ours.close()
    if isinstance(given, SystemExit):
        raise given
    return given


def end_with(parent: int) -> None:
    """Let this process be killed when its parent ends, where the system can: nobody would read what it measures."""
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def _ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"its exit code is {code}"
    more = ", as the system does when memory ends" if -code == signal.SIGKILL else ""
    return f"it was ended by signal {-code} ({signal.strsignal(-code)}){more}"


def peak_mebibytes(side: Callable[[], Any]) -> float:
    """The most memory that one call takes beyond what is held before it, seen in a child of its own."""

    def watched() -> int:
        # What earlier calls freed may still be held, and would serve this one unseen; and the highest mark is theirs.
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        held = _resident("VmRSS")
        side()
        return _resident("VmHWM") - held

    return float(alone(watched)) / 2**20


def _resident(kind: str) -> int:
    """Bytes in memory now (VmRSS), or the most there were since the mark was cleared (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(kind))


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0].split(":")[1].strip() if names else platform.processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def report(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print the rows as a table or, with the machine, as JSON; none, where `--only` names none, is an error."""
    if not rows:
        raise SystemExit("--only: no row has that in its name")
    if as_json:
        print(json.dumps({"machine": machine(), "rows": rows}, indent=2))
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    columns = list(rows[0])
    texts = [columns] + [[f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for text in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(text, widths, strict=True)).rstrip())
