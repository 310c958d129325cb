import json
import os
import pickle
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.errors import RunError
from regard.training.optimizer import make_optimizer
from regard.training.run import checkpoint as module
from regard.training.run.checkpoint import (
    checkpoints,
    damage_of,
    load_tensors,
    load_weights,
    newest_checkpoint,
    read_state,
    save_checkpoint,
    save_weights,
)
from tests.training.tiny import Sequences, Tiny, build, objective, run_tiny, same_weights, settings


def trained() -> tuple[Tiny, torch.optim.Optimizer]:
    model = build()
    optimizer = make_optimizer(model, settings())
    for _ in range(2):
        optimizer.zero_grad()
        objective(model, Sequences().load([1, 2, 3])).total.backward()
        optimizer.step()
    return model, optimizer


@pytest.fixture
def saved(tmp_path):
    """Checkpoints of steps 3, 4 and 5."""
    model, optimizer = trained()
    for step in (3, 4, 5):
        save_checkpoint(tmp_path, step, model, optimizer, {"step": step, "rate": 0.1 + 0.2}, keep=3)
    return tmp_path


def newest(folder) -> tuple[str | None, list[str]]:
    said: list[str] = []
    found = newest_checkpoint(folder, said.append)
    return (found.name if found else None), said


def test_all_comes_back_bit_for_bit(tmp_path):
    model, optimizer = trained()
    folder = save_checkpoint(tmp_path, 7, model, optimizer, {"rate": 0.1 + 0.2}, keep=1)
    other = build(seed=4)
    other_optimizer = make_optimizer(other, settings())
    load_tensors(folder, other, other_optimizer)
    assert same_weights(other, model)
    assert other.vocabulary.weight is other.embedding.weight, "tied weights stay tied"
    assert read_state(folder) == {"rate": 0.1 + 0.2}
    moments, its_moments = (each.state_dict()["state"] for each in (optimizer, other_optimizer))
    assert moments.keys() == its_moments.keys()
    for number, mine in moments.items():
        its = its_moments[number]
        assert mine.keys() == its.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(mine[name], its[name]) for name in mine)
    assert other.unused.weight not in other_optimizer.state


def test_only_the_newest_are_kept_and_nothing_else_lies_around(saved):
    model, optimizer = trained()
    save_checkpoint(saved, 11, model, optimizer, {}, keep=2)
    assert sorted(os.listdir(saved)) == ["step-00000005", "step-00000011"]


def test_files_may_be_read_by_whom_the_umask_lets(saved):
    mask = os.umask(0)
    os.umask(mask)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (saved / "step-00000005").iterdir()}
    assert modes == dict.fromkeys(modes, 0o666 & ~mask)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove"])
def test_a_damaged_checkpoint_is_passed_over_aloud(saved, name, harm):
    file = saved / "step-00000005" / name
    content = bytearray(file.read_bytes())
    if harm == "cut":
        file.write_bytes(content[:-1])
    elif harm == "flip":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    else:
        file.unlink()
    found, said = newest(saved)
    assert found == "step-00000004"
    assert len(said) == 1
    assert "step-00000005 is damaged" in said[0]
    assert name in said[0]


@pytest.mark.parametrize("content", [None, "", "{", "[]", "null", '{"model.safetensors": {}}'])
def test_without_its_manifest_a_checkpoint_is_not_whole(saved, content):
    manifest = saved / "step-00000005" / "manifest.json"
    if content is None:
        manifest.unlink()
    else:
        manifest.write_text(content)
    assert newest(saved)[0] == "step-00000004"


def test_all_damaged_is_an_error_and_none_at_all_is_not(saved, tmp_path):
    for folder in checkpoints(saved):
        (folder / "state.json").unlink()
    with pytest.raises(RunError, match="all checkpoints"):
        newest(saved)
    assert newest(tmp_path / "elsewhere") == (None, [])


@pytest.mark.parametrize("act", range(1, 8))
def test_a_write_that_breaks_off_anywhere_leaves_the_old_ones(saved, monkeypatch, act):
    """Whichever rename is the last that happens, no half-written checkpoint counts, and the next save cleans up."""
    model, optimizer = trained()
    done = []
    real = os.replace

    def breaking(*paths):
        done.append(paths)
        if len(done) == act:
            raise KeyboardInterrupt
        real(*paths)

    monkeypatch.setattr(os, "replace", breaking)
    try:
        save_checkpoint(saved, 6, model, optimizer, {}, keep=2)
        assert act == 7, "there are six renames: four files, the checkpoint, and two old ones away"
    except KeyboardInterrupt:
        found, said = newest(saved)
        assert (found, said) == ("step-00000005" if act <= 5 else "step-00000006", [])
    monkeypatch.undo()
    save_checkpoint(saved, 7, model, optimizer, {}, keep=2)
    assert newest(saved) == ("step-00000007", [])
    assert len(os.listdir(saved)) == 2


def test_a_damaged_one_is_made_anew(saved):
    (saved / "step-00000005" / "state.json").unlink()
    model, optimizer = trained()
    save_checkpoint(saved, 5, model, optimizer, {"anew": True}, keep=2)
    assert newest(saved) == ("step-00000005", [])
    assert read_state(saved / "step-00000005") == {"anew": True}


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_loading_never_runs_code(saved, tmp_path, name):
    """K10: a pickle in the place of the tensors, with a manifest that vouches for it, is refused unread."""
    folder = saved / "step-00000005"
    content = pickle.dumps(Harmful(tmp_path / "made"))
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest[name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert damage_of(folder) is None
    model, optimizer = trained()
    with pytest.raises(RunError, match=f"{name} is damaged"):
        load_tensors(folder, model, optimizer)
    assert not (tmp_path / "made").exists()
    source = Path(module.__file__).read_text()
    assert "torch.load" not in source
    assert "pickle" not in source


def test_weights_of_another_model_are_named(tmp_path):
    save_weights(tmp_path / "model.safetensors", torch.nn.Linear(5, 7))
    with pytest.raises(RunError, match=r"(?s)weight.*\[7, 5\].*\[11, 5\]"):
        load_weights(torch.nn.Linear(5, 11), tmp_path / "model.safetensors")
    save_file({"other": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(RunError, match="other"):
        load_weights(torch.nn.Linear(5, 7), tmp_path / "other.safetensors")
    with pytest.raises(RunError, match="absent"):
        load_weights(torch.nn.Linear(5, 7), tmp_path / "none.safetensors")


def test_every_saved_file_alone_is_the_model_in_memory(tmp_path):
    """B51: checkpoints and the final file, each loaded alone, give what the model in memory gave."""
    validated = []
    model, results = run_tiny(tmp_path, steps=6, validate_every=2, keep=9)
    shutil.rmtree(tmp_path / "events")
    batch = Sequences().load(list(range(7)))
    model.eval()
    for file in (tmp_path / "model.safetensors", tmp_path / "checkpoints" / "step-00000006" / "model.safetensors"):
        alone = build(seed=9).eval()
        load_weights(alone, file)
        validated.append(torch.equal(alone(batch.inputs), model(batch.inputs)))
    assert results["best_step"] == 6, "else the first file is of an earlier step"
    assert validated == [True, True]
