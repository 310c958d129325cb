"""A Transformer by several processes, whole in each (DDP) or in parts (FSDP), is the Transformer of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import RunError
from regard.training.processes.parts import files_of, named_once, put_whole, read_whole
from regard.training.run.average import last_checkpoints
from regard.training.run.checkpoint import checkpoints, damage_of, load_weights, newest_checkpoint
from tests.training.processes.transformer_shared import build, run
from tests.training.tiny import timeless

HERE = Path(__file__).parent


def on_two(path: Path, **options) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = [*launch, str(HERE / "transformer_shared.py"), str(path), json.dumps(options)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def numbers_with_a_gradient(model) -> dict[str, torch.Tensor]:
    """All weights but the biases of keys: these change no softmax, so that their gradient is rounding and no more.

    Adam divides it by its own size, give or take 1e-8, so no two orders of summation need to agree about them.
    """
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for name, weight in weights.items():
        if name.endswith("attention.inputs.bias"):
            weight.view(3, -1)[1] = 0  # of queries, keys, values
    return weights


def same_numbers(one: Path, other: Path) -> None:
    lines, others = timeless(one), timeless(other)
    assert len(lines) == len(others) > 0
    for line, its in zip(lines, others, strict=True):
        assert its.pop("kind") == line.pop("kind")
        assert its == pytest.approx(line, abs=1e-5, rel=0)
    models = [build(seed=9), build(seed=9)]
    for model, path in zip(models, (one, other), strict=True):
        load_weights(model, path / "model.safetensors")
    first, second = map(numbers_with_a_gradient, models)
    torch.testing.assert_close(second, first, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True], ids=["whole", "sharded"])
def test_two_processes_give_one_process_numbers(tmp_path, shard):
    """Losses and weights to 1e-5; the second process has no row of every third batch."""
    torch.set_num_threads(1)
    run(tmp_path / "one")
    on_two(tmp_path / "two", shard=shard)
    same_numbers(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_a_sharded_run_continues_in_one_process_and_back(tmp_path):
    """Weights and moments lie in parts; one process reads them, and two read what one wrote."""
    torch.set_num_threads(1)
    run(tmp_path / "one", steps=9)
    on_two(tmp_path / "two", steps=3, save_every=1, shard=True)
    [newest, *_] = checkpoints(tmp_path / "two" / "checkpoints")
    names = {file.name for file in newest.iterdir()}
    assert {"model-1-of-2.safetensors", "model-2-of-2.safetensors", "optimizer-2-of-2.safetensors"} <= names
    halves = [load_file(newest / f"model-{part}-of-2.safetensors") for part in (1, 2)]
    name = "stack.blocks.0.feed_forward.inputs.weight"
    assert [len(half[name]) for half in halves] == [20, 20]
    with pytest.raises(RunError, match="in parts"):
        last_checkpoints(tmp_path / "two" / "checkpoints", 1)
    run(tmp_path / "two", steps=6, resume=True, shard=True)  # alone: whole again
    on_two(tmp_path / "two", steps=9, resume=True, shard=True)
    same_numbers(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_accumulation_is_the_big_batch(tmp_path, dtype, monkeypatch):
    """Three batches of 4, 4 and 3 rows in one update, and all eleven at once."""
    monkeypatch.setattr("tests.training.processes.transformer_shared.build", lambda: build().to(dtype))
    many = run(tmp_path / "many", rows=4, accumulation=3, steps=3)
    whole = run(tmp_path / "whole", rows=11, steps=3)
    if dtype == torch.float64:  # where that rounding is far below 1e-8
        weights, others = dict(many.named_parameters()), dict(whole.named_parameters())
        torch.testing.assert_close(weights, others, rtol=0, atol=1e-13)
    torch.testing.assert_close(numbers_with_a_gradient(many), numbers_with_a_gradient(whole), rtol=0, atol=5e-7)
    assert [line["loss"] for line in timeless(tmp_path / "many")] == pytest.approx(
        [line["loss"] for line in timeless(tmp_path / "whole")], abs=1e-6
    )


def test_activations_that_are_made_anew_change_nothing(tmp_path):
    plain, anew = run(tmp_path / "plain", steps=3), run(tmp_path / "anew", steps=3, recompute=True)
    for one, other in zip(plain.parameters(), anew.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_parts_are_put_together_in_their_order(tmp_path):
    """Twelve parts, so that ten comes after nine; what is not sharded stands in the first alone."""
    rows = torch.arange(12.0).reshape(12, 1)
    for rank in range(12):
        mine = {"rows": rows[rank : rank + 1].clone(), **({"step": torch.tensor(5.0)} if rank == 0 else {})}
        save_file(mine, tmp_path / f"a-{rank + 1}-of-12.safetensors")
    whole = read_whole(tmp_path / "a.safetensors")
    assert torch.equal(whole["rows"], rows) and whole["step"] == 5
    assert files_of("a.safetensors", ["a.safetensors", "b-1-of-3.safetensors"]) == ["a.safetensors"]


def test_a_missing_part_is_damage_and_other_weights_are_named(tmp_path):
    folder = tmp_path / "checkpoints" / "step-00000001"
    folder.mkdir(parents=True)
    manifest = {
        name: {"bytes": 0, "sha256": ""} for name in ("model-1-of-2.safetensors", "optimizer-1-of-2.safetensors")
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "model-1-of-2.safetensors" in str(damage_of(folder))
    with pytest.raises(RunError, match="all checkpoints"):
        newest_checkpoint(tmp_path / "checkpoints", lambda text: None)
    model = build()
    weights = {name: tensor.detach().clone() for name, tensor in named_once(model).items()}
    tied = [name for name in ("embedding.weight", "readout.weight") if name in weights]
    assert len(tied) == 1
    alias = {"embedding.weight": "readout.weight", "readout.weight": "embedding.weight"}[tied[0]]
    put_whole(model, {**{k: v for k, v in weights.items() if k != tied[0]}, alias: weights[tied[0]] + 1}, tmp_path)
    assert torch.equal(model.embedding.weight, weights[tied[0]] + 1)
    with pytest.raises(RunError, match=r"Missing or of another shape: stack\.norm\.weight"):
        put_whole(model, {k: v for k, v in weights.items() if k != "stack.norm.weight"}, tmp_path)
    with pytest.raises(RunError, match="Not its own: other"):
        put_whole(model, {**weights, "other": torch.zeros(1)}, tmp_path)
