"""How time and memory grow: with the length, the heads, the width and the batch, beside what all weights at once take.

Every row is one call, forward or with its gradients, as percent of what this machine could do: its products, memory
and divisions are measured in the same run, and no call can be faster than the slowest of its three shares of them.
Slopes are of the upper half of a log-log line, beside those of theory. Rivals are what one writes with torch's own
operations; they run with and without large pages (THP_MEM_ALLOC_ENABLE=1), since half of their time is spent on new
pages. Rows are written as they come: a run that is killed keeps them.
"""

import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from regard.files import replacing
from scaling_calls import KINDS, Made, Size
from turns import end_with, machine

HERE = Path(__file__).resolve()
LENGTHS = [2**power for power in range(7, 17)]
SIZE = Size(batch=1, heads=1, length=1024, width=64)
SWEEPS = {
    "heads": [1, 2, 4, 8, 16],
    "width": [16, 32, 64, 128, 256],
    "batch": [1, 2, 4, 8, 16],
}
SWEPT = ("dot", "linear causal", "additive")
SETS = [2**18, 2**20, 2**22, 2**24, 2**26, 2**28]  # bytes whose way through memory is measured
SHARE = 0.6  # of the memory that is free
Row = dict[str, Any]


# --- one process: its peaks, or some series ---------------------------------------------------------------------------


def seconds(call: Callable[[], Any], least: float = 0.2, most: int = 7) -> tuple[float, float]:
    """Median of the clock and of processor time, of as many calls as the time allows; the first is not counted."""
    began, started = time.perf_counter(), time.process_time()
    call()
    taken: list[tuple[float, float]] = []
    if time.perf_counter() - began > 20:  # so long that being the first doesn't matter
        return time.perf_counter() - began, time.process_time() - started
    while len(taken) < 3 or (len(taken) < most and sum(one for one, _ in taken) < least):
        clock, processor = time.perf_counter(), time.process_time()
        call()
        taken.append((time.perf_counter() - clock, time.process_time() - processor))
        if sum(one for one, _ in taken) > 10:
            break
    return statistics.median(one for one, _ in taken), statistics.median(one for _, one in taken)


def status(kind: str) -> int:
    """Bytes of this process in memory now (VmRSS), or the most since the mark was cleared (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(kind))


def peak(call: Callable[[], Any]) -> int:
    """Bytes that a call takes at most beyond what is held before; in this process, whose threads a fork would lose."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    held = status("VmRSS")
    call()
    return max(0, status("VmHWM") - held)


def free() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def shortest(call: Callable[[], Any]) -> float:
    """Least seconds of a thread, of ten calls: what else the machine does can only make it slower."""
    call()
    taken = []
    for _ in range(10):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return min(taken) / torch.get_num_threads()


def peaks(side: int, sets: list[int]) -> Row:
    """What this machine does at best, with the threads of now: a second's operations, divisions and bytes.

    Bytes by the size of what they belong to, since that may lie in a cache.

    Args:
        side: rows and columns of the matrices that are multiplied.
        sets: bytes that are gone through.
    """
    one, other, into = (torch.randn(side, side) for _ in range(3))
    few = torch.rand(2**15) + 1
    quotients = torch.empty_like(few)
    rates = {}
    for size in sets:
        source, target = torch.zeros(size // 8), torch.zeros(size // 8)
        again = max(1, 2**26 // size)
        rates[str(size)] = size * again / shortest(lambda: [target.copy_(source) for _ in range(again)])  # noqa: B023
    return {
        "threads": torch.get_num_threads(),
        "operations": 2 * side**3 / shortest(lambda: torch.mm(one, other, out=into)),
        "divisions": 100 * len(few) / shortest(lambda: [torch.reciprocal(few, out=quotients) for _ in range(100)]),
        "bytes": rates,
    }


def fewest_seconds(made: Made, explicit: bool, backward: bool, best: Row) -> float:
    """No call of this machine can be faster: its products, the bytes it must read and write, its divisions."""
    cost = made.explained.explicit if explicit else made.explained.cost
    moved = sum(one.numel() * 4 for one in made.inputs) + (cost.bytes_with_gradients if backward else cost.bytes)
    rates = best["bytes"]
    rate = next((rate for size, rate in rates.items() if moved <= int(size)), rates[max(rates, key=int)])
    return max(
        (cost.operations_with_gradients if backward else cost.operations) / best["operations"],
        moved / rate,
        made.divisions / best["divisions"],
    )


def measured(made: Made, explicit: bool, backward: bool, best: Row) -> Row:
    there = made.rival if explicit else made.ours

    def call() -> Any:
        if not backward:
            with torch.no_grad():
                return there()
        return torch.autograd.grad(there().sum(), made.inputs)

    clock, processor = seconds(call)
    took = peak(call)
    limit = fewest_seconds(made, explicit, backward, best)
    return {
        "path": "all weights" if explicit else made.explained.path,
        "seconds": clock,
        "processor": processor,
        "MiB": took / 2**20,
        "percent of the limit": 100 * limit * torch.get_num_threads() / processor,
    }


def sizes(sweep: str, quick: bool) -> Iterator[tuple[int, Size]]:
    """Along one axis: its number, and the whole size."""
    numbers = LENGTHS[:3] if quick else LENGTHS
    for number in numbers if sweep == "length" else SWEEPS[sweep]:
        yield number, SIZE._replace(**{sweep: number})


def run(job: Row) -> Iterator[Row]:
    """The series of one process, after its peaks if nobody knows them yet."""
    torch.set_num_threads(job["threads"])
    for name in {name for name, _, _ in job["series"]}:  # what is built or loaded at a first call is no part of any
        for length in (LENGTHS[0], 300):
            KINDS[name].make(SIZE._replace(length=length)).ours().sum().backward()
    if job["best"] is None:
        job["best"] = peaks(512 if job["quick"] else 2048, SETS[:3] if job["quick"] else SETS)
        yield {"peaks": job["best"]}
    until = time.monotonic() + job["seconds"]
    for place, (name, sweep, backward) in enumerate(job["series"]):
        share = (until - time.monotonic()) / (len(job["series"]) - place)
        yield {"begins": [name, sweep, backward]}
        yield from one_series(name, sweep, backward, job, time.monotonic() + share)


def one_series(name: str, sweep: str, backward: bool, job: Row, until: float) -> Iterator[Row]:
    kind, explicit = KINDS[name], job["side"] == "all weights"
    head = {
        "kind": name,
        "side": job["side"],
        "along": sweep,
        "pass": "both" if backward else "forward",
        "threads": job["threads"],
        "large pages": job["pages"],
    }
    last = 0.0
    for number, size in sizes(sweep, job["quick"]):
        row = {**head, "number": number}
        pairs = size.batch * size.heads * size.length**2
        if explicit and pairs * kind.beyond * (2 if backward else 1) > SHARE * free():
            yield {**row, "stopped": "memory"}
            return
        growth = 2.0 ** (2 if explicit and sweep == "length" else kind.slope if sweep == "length" else 1)
        if time.monotonic() + 4 * growth * last > until:
            yield {**row, "stopped": "time"}
            return
        made = kind.make(size)
        if number <= 128 and not explicit and not backward:
            error = float((made.ours() - made.rival()).detach().abs().max())
            if not error < 1e-4:
                raise SystemExit(f"{name}: the two contexts differ by {error}")
        row |= measured(made, explicit, backward, job["best"])
        last = row["seconds"]
        yield row


# --- all processes ----------------------------------------------------------------------------------------------------


def plan(quick: bool) -> list[tuple[str, bool, int, list[tuple[str, str, bool]]]]:
    """Side, large pages, threads, and the series of each process, the most telling first."""
    kinds = ["dot", "linear causal"] if quick else list(KINDS)
    lengths = [(name, "length", backward) for backward in (False, True) for name in kinds]
    sweeps = (
        []
        if quick
        else [(name, sweep, False) for sweep in SWEEPS for name in SWEPT if (name, sweep) != ("additive", "heads")]
    )
    most = len(os.sched_getaffinity(0))
    threads = [1] if quick or most < 2 else [1, 2]
    found = []
    sides = [("regard", False), ("all weights", False), ("all weights", True)]
    for number in threads:
        for side, pages in sides[::2] if quick else sides:
            found.append((side, pages, number, lengths + (sweeps if number == 1 and not pages else [])))
    return found


def lines(job: Row, limit: float) -> Iterator[Row]:
    """What a process says, until it ends or its time does."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(job["threads"])}
    environment["THP_MEM_ALLOC_ENABLE"] = "1" if job["pages"] else "0"
    call = [sys.executable, str(HERE), "--child", json.dumps({**job, "parent": os.getpid()})]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=environment)
    timer = threading.Timer(limit, child.kill)
    timer.start()
    assert child.stdout is not None
    try:
        for line in child.stdout:
            yield json.loads(line)
        if child.wait() > 0:  # below 0 it was killed, here or by the system for its memory
            raise SystemExit(f"a process of the study failed: {job['side']}, {job['series'][0]}")
    finally:
        timer.cancel()
        child.kill()
        child.wait()


def study(minutes: float, quick: bool, keep: Callable[[Row], None]) -> Row:
    """All rows; `keep` is called with each state."""
    began = time.monotonic()
    found: Row = {"machine": machine(), "peaks": [], "rows": []}
    best: dict[int, Row] = {}
    parts = plan(quick)
    for place, (side, pages, threads, series) in enumerate(parts):
        left = 60 * minutes - (time.monotonic() - began)
        until = time.monotonic() + left / (len(parts) - place)
        while series:
            job = {"side": side, "pages": pages, "threads": threads, "series": series, "quick": quick}
            job |= {"best": best.get(threads), "seconds": max(5.0, until - time.monotonic())}
            current = None
            for row in lines(job, job["seconds"] + (600 if quick else 60)):
                if "begins" in row:
                    current = tuple(row["begins"])
                elif "peaks" in row:
                    best[threads] = row["peaks"]
                    found["peaks"].append(row["peaks"])
                else:
                    found["rows"].append(row)
                    keep(found)
            # A process that was killed, for its memory or its time, loses its series alone.
            series = series[series.index(current) + 1 :] if current in series else []
    return found


# --- what is shown ----------------------------------------------------------------------------------------------------


def grouped(rows: list[Row]) -> dict[tuple, list[Row]]:
    """The rows of each line of the plot."""
    found: dict[tuple, list[Row]] = {}
    for row in rows:
        if "seconds" in row:
            key = tuple(row[name] for name in ("along", "kind", "side", "pass", "threads", "large pages"))
            found.setdefault(key, []).append(row)
    return found


def slope(rows: list[Row], of: str) -> float:
    """Of the upper half of a line, both axes being logarithms; NaN of fewer than two points."""
    upper = [row for row in rows[len(rows) // 2 :] if row[of] > 0]
    if len(upper) < 2:
        return math.nan
    line = statistics.linear_regression(
        [math.log(row["number"]) for row in upper], [math.log(row[of]) for row in upper]
    )
    return line.slope


def theory(along: str, kind: str, side: str) -> tuple[int, int]:
    """Slopes of time and memory."""
    if along == "length":
        return (2, 2) if side == "all weights" else (KINDS[kind].slope, KINDS[kind].memory)
    if along == "width":  # hidden units stay as many; linear attention has sums of width × width
        return {"additive": 0, "linear causal": 2 if side == "regard" else 1}.get(kind, 1), int(side == "regard")
    return 1, 1


def table(found: Row) -> Iterator[str]:
    yield ", ".join(f"{name} {value}" for name, value in found["machine"].items())
    for one in found["peaks"]:
        yield (
            f"{one['threads']} threads at best: {one['operations'] / 1e9:.0f} billion operations a second in products, "
            f"{one['divisions'] / 1e9:.2f} billion divisions a second, "
            + ", ".join(f"{rate / 1e9:.0f} GB/s of {int(size) / 2**20:g} MiB" for size, rate in one["bytes"].items())
        )
    head = ("along", "kind", "side", "pass", "threads", "pages", "up to", "ms", "MiB", "% of limit", "slope", "theory",
            "slope, memory", "theory")  # fmt: skip
    texts = [head]
    for key, rows in grouped(found["rows"]).items():
        last = rows[-1]
        expected = theory(*key[:3])
        texts.append(
            (*map(str, key[:5]), "large" if key[5] else "", str(last["number"]), f"{1000 * last['seconds']:.2f}",
             f"{last['MiB']:.1f}", f"{last['percent of the limit']:.0f}", f"{slope(rows, 'seconds'):.2f}",
             str(expected[0]), f"{slope(rows, 'MiB'):.2f}", str(expected[1]))
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for text in texts:
        yield "  ".join(cell.ljust(width) for cell, width in zip(text, widths, strict=True)).rstrip()


def picture(found: Row, path: str) -> None:
    """Time and memory over the length, with lines of theory's slopes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 10), layout="constrained")
    panels = figure.subplots(2, 2)
    colors = dict(zip(KINDS, ("C0", "C1", "C2", "C3", "C4", "C5"), strict=True))
    chosen = {key: rows for key, rows in grouped(found["rows"]).items() if key[0] == "length" and key[4] == 1}
    for across, way in enumerate(("forward", "both")):
        for down, (of, unit) in enumerate((("seconds", "seconds"), ("MiB", "MiB"))):
            panel = panels[down][across]
            for (_, kind, side, passed, _, pages), rows in chosen.items():
                shown = [row for row in rows if row[of] > 0]
                if passed != way or not shown:
                    continue
                style = "-" if side == "regard" else ":" if pages else "--"
                label = f"{kind}, {side}{', large pages' if pages else ''}: {slope(rows, of):.2f}"
                numbers = [row["number"] for row in shown]
                panel.plot(numbers, [row[of] for row in shown], style, color=colors[kind], marker=".", label=label)
            panel.set(xscale="log", yscale="log", xlabel="positions", ylabel=unit)
            panel.set_title(f"{unit}, {'forward' if way == 'forward' else 'with gradients'}, one thread (slopes)")
            low, high = panel.get_ylim()
            for power in (1, 2):
                line = [low * 3 * (length / LENGTHS[0]) ** power for length in LENGTHS]
                panel.plot(LENGTHS, line, color="0.8", zorder=0, linewidth=4)
            panel.set_ylim(low, high)
            if panel.get_legend_handles_labels()[0]:
                panel.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="about how long it may take")
    parser.add_argument("--json", default="", help="a file for all rows, written as they come")
    parser.add_argument("--picture", default="", help="a file for the log-log plot: svg, png or pdf")
    parser.add_argument("--read", default="", help="measure nothing: show what an earlier run wrote")
    parser.add_argument("--quick", action="store_true", help="toy size, to see that it runs")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        job = json.loads(options.child)
        end_with(job["parent"])
        for row in run(job):
            print(json.dumps(row), flush=True)
        return

    def keep(found: Row) -> None:
        if options.json:
            with replacing(Path(options.json)) as temporary:
                temporary.write_text(json.dumps(found, indent=1))
        if found["rows"]:
            print(json.dumps(found["rows"][-1]), file=sys.stderr, flush=True)

    if options.read:
        found = json.loads(Path(options.read).read_text())
    else:
        found = study(options.minutes, options.quick, keep)
    print("\n".join(table(found)))
    if options.picture:
        picture(found, options.picture)


if __name__ == "__main__":
    main()
