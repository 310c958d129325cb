"""Killed, stopped, damaged: a resumed run is the same run, bit for bit."""

import multiprocessing
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import ConfigError, RunError
from regard.training.interrupt import Interrupted
from regard.training.run.checkpoint import checkpoints
from regard.training.run.run import RunFolder
from tests.training.tiny import Sequences, run_tiny, same_weights, timeless


class Watched(Sequences):
    """Keeps which items were read, in order."""

    def __init__(self, **sizes) -> None:
        super().__init__(**sizes)
        self.read: list[list[int]] = []

    def load(self, indices):
        self.read.append(indices)
        return super().load(indices)


def same_tensors(one: Path, other: Path) -> None:
    tensors, its = load_file(one), load_file(other)
    assert tensors.keys() == its.keys()
    assert all(torch.equal(tensor, its[name]) for name, tensor in tensors.items())


def same_run(one: Path, other: Path) -> None:
    """Whether two run folders hold the same metrics and the same best and last weights."""
    assert timeless(one) == timeless(other)
    same_tensors(one / "model.safetensors", other / "model.safetensors")
    last, its = (checkpoints(path / "checkpoints")[0] for path in (one, other))
    assert last.name == its.name
    for name in ("model.safetensors", "optimizer.safetensors"):
        same_tensors(last / name, its / name)
    results, its_results = (RunFolder(path).read_results() for path in (one, other))
    by_time = {"seconds", "processor_seconds", "tokens_per_second", "tokens_per_processor_second", "peak_memory_bytes"}
    assert {key: results[key] for key in results.keys() - by_time} == {
        key: its_results[key] for key in its_results.keys() - by_time
    }


@pytest.mark.parametrize("stop, accumulation", [(4, 1), (6, 1), (7, 2), (3, 3)])
def test_b33_stopped_at_an_epochs_edge_and_within_one(tmp_path, stop, accumulation):
    """B33: four batches an epoch, dropout on; the order of batches, losses, epochs, rates and weights are unbroken."""
    plain = {"steps": None, "epochs": 4, "validate_every": 3, "log_every": 1, "accumulation": accumulation}
    plain |= {"save_every": None, "decay": "linear"}
    unbroken, broken = Watched(items=20), Watched(items=20)
    model, _ = run_tiny(tmp_path / "unbroken", batches=unbroken, **plain)
    with pytest.raises(Interrupted):
        run_tiny(tmp_path / "broken", batches=broken, signal_at=stop, **plain)
    resumed, results = run_tiny(tmp_path / "broken", batches=broken, resume=True, **plain)
    assert broken.read == unbroken.read
    assert len(broken.read) == 16
    assert same_weights(resumed, model)
    same_run(tmp_path / "unbroken", tmp_path / "broken")
    lines = [line for line in timeless(tmp_path / "broken") if line["kind"] == "train"]
    assert [line["step"] for line in lines] == list(range(1, results["steps"] + 1))
    assert len({line["learning_rate"] for line in lines}) > 2


def test_early_stopping_continues_counting(tmp_path):
    """The best value and the validations waited for are part of the place."""
    plain = {"steps": 60, "validate_every": 1, "patience": 4, "learning_rate": 0.5, "clip": None}
    _, results = run_tiny(tmp_path / "unbroken", **plain)
    assert results["ended_by"] == "patience"
    stop = results["steps"] - 2
    with pytest.raises(Interrupted):
        run_tiny(tmp_path / "broken", signal_at=stop, **plain)
    run_tiny(tmp_path / "broken", resume=True, **plain)
    same_run(tmp_path / "unbroken", tmp_path / "broken")


def test_a_damaged_newest_checkpoint_costs_one_step_and_nothing_else(tmp_path):
    run_tiny(tmp_path / "unbroken")
    with pytest.raises(Interrupted):
        run_tiny(tmp_path / "broken", signal_at=9)
    newest = checkpoints(tmp_path / "broken" / "checkpoints")[0]
    with open(newest / "optimizer.safetensors", "rb+") as file:
        file.truncate(1000)
    with open(tmp_path / "broken" / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "step": 12, "lo')
    said: list[str] = []
    run_tiny(tmp_path / "broken", resume=True, progress=Hearing(said))
    same_run(tmp_path / "unbroken", tmp_path / "broken")
    assert "step-00000009 is damaged" in said[0]
    assert "Resuming after step 8" in said[1]


def test_no_checkpoint_yet_starts_over_and_a_run_that_ended_stays_as_it_is(tmp_path):
    said: list[str] = []
    run_tiny(tmp_path / "unbroken")
    RunFolder.create(tmp_path / "broken", {}).metrics.write_text('{"kind": "train", "step": 3}\n')
    run_tiny(tmp_path / "broken", resume=True, progress=Hearing(said))
    assert "starts from its beginning" in said[0]
    same_run(tmp_path / "unbroken", tmp_path / "broken")
    run_tiny(tmp_path / "broken", resume=True)
    same_run(tmp_path / "unbroken", tmp_path / "broken")


def test_b33_other_options_are_refused_aloud_or_honoured_aloud(tmp_path):
    """B33, OpenNMT-py#1911: each option that differs is named with both values."""
    run_tiny(tmp_path, steps=3)
    with pytest.raises(ConfigError) as refused:
        run_tiny(tmp_path, resume=True, learning_rate=0.5, accumulation=2, steps=5, seed=6)
    for part in ("learning_rate: saved 0.02, now 0.5", "accumulation: saved 1, now 2", "seed: saved 5, now 6"):
        assert part in str(refused.value)
    assert "  steps:" not in str(refused.value)
    said: list[str] = []
    _, results = run_tiny(tmp_path, resume=True, steps=5, keep=3, progress=Hearing(said))
    assert results["steps"] == 5
    assert "Changed on resume: keep was 2 and is now 3." in said
    assert "Changed on resume: steps was 3 and is now 5." in said


def test_an_extended_run_without_decay_is_the_long_run(tmp_path):
    even = {"decay": "none", "validate_every": 3}
    longer, _ = run_tiny(tmp_path / "unbroken", steps=9, **even)
    run_tiny(tmp_path / "broken", steps=6, **even)
    extended, _ = run_tiny(tmp_path / "broken", steps=9, resume=True, **even)
    assert same_weights(extended, longer)
    same_run(tmp_path / "unbroken", tmp_path / "broken")


def test_other_data_and_another_model_are_refused(tmp_path):
    run_tiny(tmp_path, steps=3)
    with pytest.raises(RunError, match="other data or batches"):
        run_tiny(tmp_path, resume=True, steps=5, batches=Sequences(items=28))
    with pytest.raises(RunError, match=r"(?s)not of this model.*unused\.weight"):
        run_tiny(tmp_path, resume=True, steps=5, unused=5)


class Hearing:
    """A silent reporter that keeps what is said."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def update(self, step, done, left, numbers, line):
        pass

    def validated(self, step, metrics, best):
        pass

    def say(self, message):
        self.said.append(message)


PAUSE = 0.02
WAIT = 120  # seconds for a busy machine


def _child(path: Path, steps: int) -> None:
    torch.set_num_threads(1)
    run_tiny(path, pause=PAUSE, resume=True, steps=steps)


def kill_again_and_again(path: Path, steps: int, kills: int, stride: int, seed: int) -> int:
    """Start a run, or go on with it, and kill it at a random moment; returns at which step the last kill found it.

    The moment is any within a few steps, each of which computes, writes metrics, validates at times and saves.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["torch", "torch._dynamo", "regard.training.loop"])
    moments = random.Random(seed)
    reached = 0
    for _ in range(kills):
        child = processes.Process(target=_child, args=(path, steps))
        child.start()
        goal, deadline = reached + moments.randrange(1, stride + 1), time.monotonic() + WAIT
        while _newest(path) < goal and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 3 * PAUSE))
        assert child.is_alive(), f"the run ended by itself ({child.exitcode}) before it could be killed"
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        reached = _newest(path)
    assert not (path / "results.json").exists()
    return reached


def _newest(path: Path) -> int:
    found = checkpoints(path / "checkpoints")
    return int(found[0].name.removeprefix("step-")) if found else 0


def killed_run_equals_unbroken(folder: Path, steps: int, kills: int, stride: int, seed: int) -> None:
    torch.set_num_threads(1)
    model, _ = run_tiny(folder / "unbroken", steps=steps)
    reached = kill_again_and_again(folder / "killed", steps, kills, stride, seed)
    assert 0 < reached < steps
    resumed, _ = run_tiny(folder / "killed", resume=True, steps=steps)
    assert same_weights(resumed, model)
    same_run(folder / "unbroken", folder / "killed")


def test_killed_at_three_random_moments_it_continues_bit_for_bit(tmp_path):
    killed_run_equals_unbroken(tmp_path, steps=40, kills=3, stride=4, seed=random.randrange(2**32))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_twenty_random_moments_it_continues_bit_for_bit(tmp_path, seed):
    killed_run_equals_unbroken(tmp_path, steps=200, kills=20, stride=5, seed=seed)
