"""How long `import regard` takes beside `import torch`, and `regard --help` beside an empty Python.

    python benchmarks/start.py [--json] [--rounds N]

Each is a process of its own, in turns; files are in the system's cache after the round that is not counted. Names of
regard are imported when they are first asked for, so `regard.attend` is a row of its own. Processor time is that of
user and system together.
"""

import argparse
import os
import statistics
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from turns import report

HELP = str(Path(sysconfig.get_path("scripts"), "regard"))
CALLS = {
    "import torch": [sys.executable, "-c", "import torch"],
    "import regard": [sys.executable, "-c", "import regard"],
    "import torch, regard": [sys.executable, "-c", "import torch, regard"],
    "import torch, regard; regard.attend": [sys.executable, "-c", "import torch, regard; regard.attend"],
    "python": [sys.executable, "-c", ""],
    "regard --help": [HELP, "--help"],
}


def taken(call: list[str]) -> tuple[float, float]:
    """Seconds of the processor and of the clock."""
    before = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(call[0], call, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(call)} failed")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - before


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds: one at least is needed for a median")
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in CALLS}
    for number in range(options.rounds + 1):
        for name in list(CALLS)[:: -1 if number % 2 else 1]:
            found = taken(CALLS[name])
            if number:
                seconds[name].append(found)
    medians = {name: [statistics.median(kind) for kind in zip(*each, strict=True)] for name, each in seconds.items()}
    theirs = medians["import torch"]
    rows: list[dict[str, Any]] = [
        {
            "call": name,
            "processor ms": 1000 * each[0],
            "clock ms": 1000 * each[1],
            "by import torch, processor": each[0] / theirs[0],
            "by import torch, clock": each[1] / theirs[1],
        }
        for name, each in medians.items()
    ]
    report(rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
