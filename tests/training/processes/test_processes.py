"""Two processes under torchrun are one run with the same numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.errors import RunError
from regard.training.processes.processes import Processes
from regard.training.run.checkpoint import load_weights
from tests.training.tiny import Sequences, build, run_tiny, timeless

HERE = Path(__file__).parent
# Eleven items in batches of five, five and one.
SMALL = '{"steps": 9, "log_every": 1}'


def test_a_lone_process_has_all_rows():
    processes = Processes()
    assert (processes.first, processes.count, processes.device.type) == (True, 1, "cpu")
    assert processes.share([5, 3, 2]) == [5, 3, 2]
    assert processes.gather("a") == ["a"]
    assert processes.broadcast("a") == "a"


def test_processes_that_did_not_meet_are_an_error(monkeypatch):
    Processes()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RunError, match="2 processes were launched, but 1 met"):
        Processes()


def test_two_processes_give_one_process_numbers(tmp_path):
    """Losses to 1e-5 and weights as close, with dropout off; the second process has no row of every third batch."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = [*launch, str(HERE.parent / "tiny.py"), str(tmp_path / "two"), SMALL, '{"dropout": 0, "items": 11}']
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    torch.set_num_threads(1)
    _, results = run_tiny(tmp_path / "one", dropout=0, steps=9, log_every=1, batches=Sequences(items=11))
    one, two = timeless(tmp_path / "one"), timeless(tmp_path / "two")
    assert len(one) == len(two) == 12
    for line, its in zip(one, two, strict=True):
        assert its.pop("kind") == line.pop("kind")
        assert its == pytest.approx(line, abs=1e-5, rel=0)
    models = [build(seed=9), build(seed=9)]
    for model, name in zip(models, ("one", "two"), strict=True):
        load_weights(model, tmp_path / name / "model.safetensors")
    for weights, its in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(its, weights, rtol=0, atol=1e-5)
    assert torch.equal(models[1].unused.weight, build().unused.weight), "no update used it, so none decayed it"
    assert (results["tokens"], results["processes"]) == (3 * sum(2 + item % 6 for item in range(11)), 1)
