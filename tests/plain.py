"""Run a piece of code in a Python of its own, without the suite's run-time checks: what torch.compile must see."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run_plain(code: str, timeout: float = 300) -> str:
    """The standard output of the code; a failure shows all that it printed."""
    tests = Path(__file__).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (tests, tests / "attention"))),
        "OMP_NUM_THREADS": "1",
    }
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout
