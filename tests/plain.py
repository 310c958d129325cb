"""Run a piece of code in a Python of its own, without the suite's run-time checks: what torch.compile must see."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def plain_environment(**more: str) -> dict[str, str]:
    """This process's environment, in which `tests.…` can be imported; one thread."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "REGARD_CHECK_LOOPS": "0", **more}


def run_plain(code: str, timeout: float = 300) -> str:
    """The standard output of the code; a failure shows all that it printed."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=plain_environment(),
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout
