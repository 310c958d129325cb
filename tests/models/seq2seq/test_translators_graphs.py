import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "luong-additive",
        pytest.param("luong-feeding", marks=pytest.mark.slow),
        pytest.param("bahdanau-coverage-local-p", marks=pytest.mark.slow),
    ],
)
def test_a_step_compiles_whole_and_exports_for_any_lengths(name):
    """B38: lengths 1, the sample's and longer, batch 1 to 4. In a process without the tests' shape checks."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.graphs", name],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"{name} agrees"]
